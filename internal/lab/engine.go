package lab

import (
	"context"
	"fmt"
	"time"
)

const engineDeadline = time.Minute

// RestartEngine restarts the Docker daemon and waits, at most a minute, until
// it answers. It clears the start limit first: a few restarts within a minute
// would otherwise leave the daemon failed.
func (h *Host) RestartEngine(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, engineDeadline)
	defer cancel()
	if _, err := h.Output(ctx, "systemctl", "reset-failed", "docker.service", "docker.socket"); err != nil {
		return fmt.Errorf("restart the engine: %w", err)
	}
	if _, err := h.Output(ctx, "systemctl", "restart", "docker.service"); err != nil {
		return fmt.Errorf("restart the engine: %w", err)
	}
	if _, err := h.Output(ctx, "docker", "version", "--format", "{{.Server.Version}}"); err != nil {
		return fmt.Errorf("restart the engine: %w", err)
	}
	return nil
}

// Journal returns what the unit has logged in the present boot, or what all
// have logged when unit is empty.
func (h *Host) Journal(ctx context.Context, unit string) (string, error) {
	argv := []string{"journalctl", "--boot", "--no-pager", "--output", "short-precise"}
	if unit != "" {
		argv = append(argv, "--unit", unit)
	}
	return h.Output(ctx, argv...)
}
