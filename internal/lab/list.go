package lab

// HostInfo describes a host of the cache directory, whoever made it.
type HostInfo struct {
	ID         string
	PID        int // its PID 1 as the outside numbers it, 0 while it is off
	BootID     string
	Boots      int // how often it was switched on
	Persistent bool
}

// List describes all hosts of the cache directory, in the order of their names.
func List() ([]HostInfo, error) {
	c, err := openCache()
	if err != nil {
		return nil, err
	}
	states, err := c.hostStates()
	if err != nil {
		return nil, err
	}
	var hosts []HostInfo
	for _, s := range states {
		info := HostInfo{ID: s.ID, BootID: s.BootID, Boots: s.Boots, Persistent: s.Persistent}
		if s.Process.alive() {
			info.PID = s.Process.PID
		}
		hosts = append(hosts, info)
	}
	return hosts, nil
}
