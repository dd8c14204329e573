package config

// SlotNameFault says why name cannot be the name of a slot, and what one looks like; ""
// if it can. It is for names that come from elsewhere than the configuration.
func SlotNameFault(name string) string { return slotNameFault(name) }
