package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"
)

func (e *environment) configCommand() *cli.Command {
	return e.group(&cli.Command{
		Name: "config", Usage: "show or check the configuration", Category: "set up",
		Subcommands: []*cli.Command{
			e.command(&cli.Command{
				Name: "show", Usage: "print the configuration in force",
				Flags: []cli.Flag{&cli.BoolFlag{Name: "origin", Usage: "say of every value where it comes from"}},
				Action: func(c *cli.Context) error {
					if err := noArguments(c); err != nil {
						return err
					}
					cfg, err := e.load(c)
					if err != nil {
						return err
					}
					return cfg.Show(e.stdout, c.Bool("origin"))
				},
			}),
			e.command(&cli.Command{
				Name: "check", Usage: "read the configuration and say nothing if it is right",
				Action: func(c *cli.Context) error {
					if err := noArguments(c); err != nil {
						return err
					}
					_, err := e.load(c)
					return err
				},
			}),
		},
	})
}

func (e *environment) printVersion() error {
	_, err := fmt.Fprintln(e.stdout, "node-lifecycle", version())
	return err
}

var versionFormats = []string{"text", "json"}

func (e *environment) versionCommand() *cli.Command {
	return e.command(&cli.Command{
		Name: "version", Usage: "print the version", Category: "set up",
		Flags: []cli.Flag{outputFlag("text", "text or json", versionFormats...)},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			switch c.String("output") {
			case "text":
				return e.printVersion()
			case "json":
				return json.NewEncoder(e.stdout).Encode(map[string]any{
					"schema": 1, "version": version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			return unknownFormat(c, versionFormats)
		},
	})
}
