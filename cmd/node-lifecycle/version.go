package main

import "runtime/debug"

// buildVersion is set by the linker (-X main.buildVersion=…) in a release.
var buildVersion = ""

// version is the release, or the revision that the binary was built from.
func version() string {
	if buildVersion != "" {
		return buildVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
