package container

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// verdict is the answer of one probe: missing is empty if it passed.
type verdict struct {
	missing string
	inside  bool // asked inside the container, so it says something about its process
}

// probe asks the slot's probes in order and returns the first that does not
// pass. inside tells whether one that passed was asked inside the container.
func (c *Controller) probe(ctx context.Context, s Slot, o *object) (inside bool, missing string, err error) {
	for _, p := range s.Ready {
		v, err := c.ask(ctx, s, o, p)
		if err != nil || v.missing != "" {
			return inside, v.missing, err
		}
		inside = inside || v.inside
	}
	return inside, "", nil
}

// ask asks one probe. o is nil where the stack has no container.
func (c *Controller) ask(ctx context.Context, s Slot, o *object, p Probe) (verdict, error) {
	set := 0
	for _, is := range []bool{len(p.Units) > 0, p.HTTP != "", len(p.Exec) > 0} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return verdict{}, badSlot(s, "ready probe", fmt.Sprintf("%+v", p), "one of units, http and exec")
	case p.HTTP != "":
		missing, err := c.askHTTP(ctx, p.HTTP)
		return verdict{missing: missing}, err
	case len(p.Units) > 0 && o == nil:
		missing, err := c.askHostUnits(ctx, p.Units)
		return verdict{missing: missing}, err
	case o == nil:
		return verdict{}, badSlot(s, "ready probe", fmt.Sprintf("exec %q", p.Exec), "units or http, as it has no container")
	case len(p.Units) > 0:
		missing, err := c.askUnits(ctx, *o, p.Units)
		return verdict{missing: missing, inside: true}, err
	default:
		missing, err := c.askExec(ctx, *o, p.Exec)
		return verdict{missing: missing, inside: true}, err
	}
}

// askHTTP asks a URL from the host. Like a kubelet it takes 200 to 399 for
// success and any certificate for good: this is about life, not about trust.
func (c *Controller) askHTTP(ctx context.Context, target string) (missing string, err error) {
	bounded, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(bounded, http.MethodGet, target, nil)
	if err != nil {
		return "", misconfigured("ask "+target, "correct the ready probe", "it cannot be asked: %w", err)
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}
	probe := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := probe.Do(req)
	switch {
	case ctx.Err() != nil:
		return "", failed("ask "+target, ended(ctx))
	case bounded.Err() != nil:
		return fmt.Sprintf("%s: no answer within %s", target, c.opts.CallTimeout), nil
	case err != nil:
		return target + ": " + briefly(err), nil
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 399 {
		body, _ := io.ReadAll(io.LimitReader(res.Body, outputTail)) // what can be read of it will do
		return strings.TrimSuffix(fmt.Sprintf("%s: status %d: %s", target, res.StatusCode, firstLine(string(body))), ": "), nil
	}
	return "", nil
}

// briefly is the innermost text of a failed request.
func briefly(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	var outer *url.Error
	if errors.As(err, &outer) {
		return outer.Err.Error()
	}
	return err.Error()
}

// askExec runs a command inside the container; 0 passes.
func (c *Controller) askExec(ctx context.Context, o object, command []string) (missing string, err error) {
	bounded, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	output := &tailBuffer{max: outputTail}
	code, err := c.exec(bounded, o, command, output, output)
	switch {
	case err != nil && ctx.Err() == nil && bounded.Err() != nil:
		return fmt.Sprintf("%s: not over within %s", command[0], c.opts.CallTimeout), nil
	case err != nil:
		return c.execTrouble(ctx, o, command[0], err)
	case code != 0:
		return strings.TrimSuffix(fmt.Sprintf("%s: exit code %d: %s", command[0], code, firstLine(output.String())), ": "), nil
	}
	return "", nil
}

// execTrouble tells a container that is going away, which is an answer, from
// an engine that cannot be asked, which is none.
func (c *Controller) execTrouble(ctx context.Context, o object, name string, err error) (string, error) {
	if !answered(err) {
		return "", err
	}
	now, found, look := c.inspect(ctx, o.ID)
	switch {
	case look != nil:
		return "", look
	case !found:
		return "container " + o.label() + " is gone", nil
	}
	if missing := now.notUp(); missing != "" {
		return missing, nil
	}
	return name + ": " + firstLine(err.Error()), nil
}

// askUnits asks systemd inside the container whether units are active.
func (c *Controller) askUnits(ctx context.Context, o object, units []string) (missing string, err error) {
	command := append([]string{"systemctl", "show", "--no-pager", "--property=Id,LoadState,ActiveState,SubState", "--"}, units...)
	bounded, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	stdout, stderr := &tailBuffer{max: 64 << 10}, &tailBuffer{max: outputTail}
	code, err := c.exec(bounded, o, command, stdout, stderr)
	switch {
	case err != nil && ctx.Err() == nil && bounded.Err() != nil:
		return fmt.Sprintf("systemd in the container: no answer within %s", c.opts.CallTimeout), nil
	case err != nil:
		return c.execTrouble(ctx, o, "systemctl", err)
	case code != 0:
		said := firstLine(stderr.String() + "\n" + stdout.String())
		return strings.TrimSuffix(fmt.Sprintf("systemd in the container does not answer yet (exit code %d): %s", code, said), ": "), nil
	}
	return notActive(units, parseShow(stdout.bytes())), nil
}

// parseShow reads what systemctl show prints: KEY=VALUE lines, with an empty
// line between two units.
func parseShow(text []byte) []map[string]string {
	var units []map[string]string
	var unit map[string]string
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		key, value, ok := strings.Cut(strings.TrimRight(lines.Text(), "\r"), "=")
		if !ok {
			unit = nil
			continue
		}
		if unit == nil {
			unit = make(map[string]string)
			units = append(units, unit)
		}
		unit[key] = value
	}
	return units
}

// notActive describes the first wanted unit that is not active. systemctl
// answers in the order of the question; an alias answers under its real name.
func notActive(want []string, have []map[string]string) string {
	for i, name := range want {
		if i >= len(have) {
			return name + ": systemd in the container says nothing about it"
		}
		switch u := have[i]; {
		case u["ActiveState"] == "active" || u["ActiveState"] == "reloading":
		case u["LoadState"] != "" && u["LoadState"] != "loaded":
			return name + ": " + u["LoadState"]
		case u["SubState"] == "" || u["SubState"] == u["ActiveState"]:
			return name + ": " + u["ActiveState"]
		default:
			return fmt.Sprintf("%s: %s (%s)", name, u["ActiveState"], u["SubState"])
		}
	}
	return ""
}

// askHostUnits is askUnits for a stack that runs without a container.
func (c *Controller) askHostUnits(ctx context.Context, units []string) (missing string, err error) {
	for _, name := range units {
		u, err := c.manager().Unit(ctx, name)
		if err != nil {
			return "", err
		}
		missing := notActive([]string{name}, []map[string]string{{
			"LoadState": u.LoadState, "ActiveState": u.ActiveState, "SubState": u.SubState,
		}})
		if missing != "" {
			return missing, nil
		}
	}
	return "", nil
}
