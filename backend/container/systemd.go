package container

import (
	"context"
	"errors"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

const (
	// busCallLimit bounds one exchange with systemd; it is the D-Bus habit, and PID 1 answers within milliseconds
	// unless it is busy with a reload.
	busCallLimit = 25 * time.Second
	// busReloadLimit bounds a daemon-reload: PID 1 runs every generator before it answers.
	busReloadLimit = 3 * time.Minute
	// busReloadTries and the doubling pause between them give a reload that systemd refused, because too many came
	// at once, about fifteen poll intervals.
	busReloadTries = 5

	defaultBusPoll = time.Second

	noSuchUnit     = "org.freedesktop.systemd1.NoSuchUnit"
	limitsExceeded = "org.freedesktop.DBus.Error.LimitsExceeded"
)

var _ Systemd = (*Bus)(nil)

// Bus talks to systemd over D-Bus. It connects at the first call and again after a connection was lost, over the
// system bus or, for root, over systemd's private socket. Its methods are safe for concurrent use, block until systemd
// answers or their context ends, and return errors with the behaviours of [Error].
type Bus struct {
	poll      time.Duration
	dial      func(context.Context) (*dbus.Conn, error)
	ownCgroup func() ([]byte, error) // content of /proc/self/cgroup

	life context.Context // every connection ends with it
	end  context.CancelFunc
	busy chan struct{} // holds one token: a lock whose wait a context can end

	conn    *sd.Conn // guarded by busy, like the fields below
	hangUp  context.CancelFunc
	wakers  sync.WaitGroup
	stopped bool
}

// NewSystemd returns a Bus that is not connected yet. poll is the interval of the safety nets: how often a restart
// looks at the unit although no signal came, and how long a lost connection waits before the next attempt; zero means
// one second.
func NewSystemd(poll time.Duration) *Bus {
	if poll <= 0 {
		poll = defaultBusPoll
	}
	life, end := context.WithCancel(context.Background())
	return &Bus{
		poll:      poll,
		dial:      newDialer().dial,
		ownCgroup: readOwnCgroup,
		life:      life,
		end:       end,
		busy:      make(chan struct{}, 1),
	}
}

// ResetFailed clears the unit's failed state and, with it, the starts counted against its start limit. A unit that is
// not loaded, because it never ran or has long been down, has neither, which is no error.
func (b *Bus) ResetFailed(ctx context.Context, unit string) error {
	if err := CheckUnitName(unit); err != nil {
		return err
	}
	err := b.call(ctx, "reset the failed state of "+unit, busCallLimit, func(ctx context.Context, c *sd.Conn) error {
		return c.ResetFailedUnitContext(ctx, unit)
	})
	if name, _ := dbusErrorName(err); name == noSuchUnit {
		return nil
	}
	return err
}

// Reload makes systemd read its unit files again (daemon-reload) and returns when it has. Losing the connection and
// being refused for too many reloads at once are retried a few times; reloading twice does no harm.
func (b *Bus) Reload(ctx context.Context) error {
	wait := b.poll
	for try := 1; ; try++ {
		err := b.call(ctx, "reload systemd", busReloadLimit, func(ctx context.Context, c *sd.Conn) error {
			return c.ReloadContext(ctx)
		})
		if err == nil || try == busReloadTries || !reloadAgain(err) || !pause(ctx, wait) {
			return err
		}
		wait *= 2
	}
}

// reloadAgain tells what may go away by itself from what will not.
func reloadAgain(err error) bool {
	name, _ := dbusErrorName(err)
	return name == limitsExceeded || isUnreachable(err)
}

// CheckLoaded returns nil if systemd has the unit loaded without complaint, and otherwise a [UnitLoadError] with
// systemd's reason.
func (b *Bus) CheckLoaded(ctx context.Context, unit string) error {
	read, err := b.read(ctx, unit)
	if err != nil {
		return err
	}
	return read.loadError()
}

// Close ends the connection, every call under way and every Wake, and waits for the latter. A closed Bus stays closed.
func (b *Bus) Close() error {
	b.end()
	b.busy <- struct{}{}
	b.stopped = true
	b.disconnect()
	<-b.busy
	b.wakers.Wait()
	return nil
}

// call runs one exchange on a live connection, bounded by limit. fn must be safe to repeat: it is run a second time
// when the first found the connection dead, which one cannot know before.
func (b *Bus) call(ctx context.Context, op string, limit time.Duration, fn func(context.Context, *sd.Conn) error) error {
	unanswered, err := b.once(ctx, limit, fn)
	if unanswered && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
		_, err = b.once(ctx, limit, fn)
	}
	if err != nil {
		return busFailure(ctx, op, err)
	}
	return nil
}

// once runs fn on the current connection. unanswered means that fn was sent off and nobody knows how far it got. The
// connection is given up then, whether it broke or only fell silent, unless it was the caller who did not wait.
func (b *Bus) once(ctx context.Context, limit time.Duration, fn func(context.Context, *sd.Conn) error) (unanswered bool, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := b.connect(limited)
	if err != nil {
		return false, err
	}
	if err = fn(limited, conn); err == nil {
		return false, nil
	}
	if _, answered := dbusErrorName(err); answered {
		return false, err
	}
	if ctx.Err() == nil {
		conn.Close()
	}
	return true, err
}

// connect returns the current connection, or a new one.
func (b *Bus) connect(ctx context.Context) (*sd.Conn, error) {
	select {
	case b.busy <- struct{}{}:
		defer func() { <-b.busy }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if b.stopped {
		return nil, errBusClosed
	}
	if b.conn != nil && b.conn.Connected() {
		return b.conn, nil
	}
	b.disconnect()
	// The connection outlives ctx, but making it must not: until it is made, the end of ctx ends it too. (If that comes
	// in the library's last step, one goroutine of the library stays behind, idle.)
	life, hangUp := context.WithCancel(b.life)
	release := context.AfterFunc(ctx, hangUp)
	conn, err := sd.NewConnection(func() (*dbus.Conn, error) { return b.dial(life) })
	if inTime := release(); err == nil && !inTime {
		conn.Close()
		err = ctx.Err()
	}
	if err != nil {
		hangUp()
		return nil, err
	}
	b.conn, b.hangUp = conn, hangUp
	return conn, nil
}

// disconnect closes the current connection, if any. The caller holds busy.
func (b *Bus) disconnect() {
	if b.conn == nil {
		return
	}
	b.conn.Close()
	b.hangUp()
	b.conn, b.hangUp = nil, nil
}
