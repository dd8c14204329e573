package container

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/godbus/dbus/v5"
)

// systemdPrivate is the socket on which PID 1 itself listens: it answers root without any bus daemon.
const systemdPrivate = "unix:path=/run/systemd/private"

// dialer opens connections to systemd: over the system bus, or, for root, straight to PID 1 when there is no bus, as
// early at boot and in rescue mode.
type dialer struct {
	private string // address of PID 1's own socket
	euid    func() int
}

func newDialer() dialer { return dialer{private: systemdPrivate, euid: os.Geteuid} }

// dial opens one connection, authenticated and ready for calls. The connection ends with ctx.
func (d dialer) dial(ctx context.Context) (*dbus.Conn, error) {
	conn, err := handshake(ctx, dbus.SystemBusPrivate)
	if err == nil {
		if err = conn.Hello(); err == nil {
			return conn, nil
		}
		conn.Close()
	}
	if d.euid() != 0 || ctx.Err() != nil {
		return nil, fmt.Errorf("system bus: %w", err)
	}
	// PID 1 is a peer and no bus: there is nobody to say Hello to.
	conn, direct := handshake(ctx, func(opts ...dbus.ConnOption) (*dbus.Conn, error) {
		return dbus.Dial(d.private, opts...)
	})
	if direct != nil {
		return nil, fmt.Errorf("system bus: %w; systemd's own socket: %w", err, direct)
	}
	return conn, nil
}

// handshake opens a connection and authenticates by uid, never by name: a look-up of the name would need libc.
func handshake(ctx context.Context, open func(...dbus.ConnOption) (*dbus.Conn, error)) (*dbus.Conn, error) {
	conn, err := open(dbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
