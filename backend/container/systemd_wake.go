package container

import (
	"context"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	systemdName   = "org.freedesktop.systemd1"
	systemdPath   = dbus.ObjectPath("/org/freedesktop/systemd1")
	propertiesIf  = "org.freedesktop.DBus.Properties"
	changedMember = "PropertiesChanged"

	// wakeBuffer is how many signals may wait; more of them only wake again.
	wakeBuffer = 16
)

// Wake returns a channel that receives something whenever a property of the unit may have changed, the main process's
// included; several changes may come as one. It says nothing about what changed: read the unit then. The channel
// outlives a lost connection, is woken once more when it is lost and when it is back, and closes when ctx ends or the
// Bus is closed. It must not be the only source: while systemd cannot be reached it is silent. Wake does not block;
// its error is a unit name that cannot be one, or a closed Bus.
func (b *Bus) Wake(ctx context.Context, unit string) (<-chan struct{}, error) {
	if err := CheckUnitName(unit); err != nil {
		return nil, err
	}
	op := "watch unit " + unit
	select {
	case b.busy <- struct{}{}:
		defer func() { <-b.busy }()
	case <-ctx.Done():
		return nil, busFailure(ctx, op, ctx.Err())
	}
	if b.stopped {
		return nil, busFailure(ctx, op, errBusClosed)
	}
	out := make(chan struct{}, 1)
	b.wakers.Go(func() {
		defer close(out)
		b.watch(ctx, unitObject(unit), out)
	})
	return out, nil
}

// watch listens until ctx or the Bus ends, over as many connections as it takes.
func (b *Bus) watch(ctx context.Context, path dbus.ObjectPath, out chan<- struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	for {
		if b.listen(ctx, path, out) && ctx.Err() == nil {
			wake(out)
		}
		if !pause(ctx, b.poll) {
			return
		}
	}
}

// listen wakes out until the connection ends. It has one of its own: the library's subscriber sees only the properties
// that all units have, and not the exit of a main process. It reports whether it ever listened.
func (b *Bus) listen(ctx context.Context, path dbus.ObjectPath, out chan<- struct{}) bool {
	life, hangUp := context.WithCancel(ctx)
	defer hangUp()
	limit := time.AfterFunc(busCallLimit, hangUp)
	defer limit.Stop()

	conn, err := b.dial(life)
	if err != nil {
		return false
	}
	defer conn.Close()
	signals := make(chan *dbus.Signal, wakeBuffer)
	conn.Signal(signals)
	if subscribe(life, conn, path) != nil || !limit.Stop() {
		return false
	}
	wake(out) // for what happened before anybody listened
	for {
		select {
		case signal, open := <-signals:
			if !open {
				return true
			}
			if signal.Path == path && signal.Name == propertiesIf+"."+changedMember {
				wake(out)
			}
		case <-conn.Context().Done():
			return true
		}
	}
}

// subscribe asks for the signals of one unit. PID 1's own socket knows no matches and sends everything, so that only
// systemd's answer counts.
func subscribe(ctx context.Context, conn *dbus.Conn, path dbus.ObjectPath) error {
	err := conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(systemdName), dbus.WithMatchObjectPath(path),
		dbus.WithMatchInterface(propertiesIf), dbus.WithMatchMember(changedMember))
	if _, answered := dbusErrorName(err); err != nil && !answered {
		return err
	}
	return conn.Object(systemdName, systemdPath).
		CallWithContext(ctx, "org.freedesktop.systemd1.Manager.Subscribe", 0).Err
}

// wake leaves one wake-up in the channel.
func wake(out chan<- struct{}) {
	select {
	case out <- struct{}{}:
	default:
	}
}
