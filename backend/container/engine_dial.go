package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/moby/moby/client"
)

// answerMax is how much of the engine's answer to one request is read. No answer that makes sense comes near it, and the
// client keeps a whole answer in memory: one that does not end would take all there is.
const answerMax = 64 << 20

// unmetered makes a client of the same version with a connection of its own, for a
// stream that has no end of its own and that its reader takes in bounded pieces.
func (e *engine) unmetered(cli *client.Client) (*client.Client, error) {
	return client.New(client.WithHost("unix://"+e.socket), client.WithAPIVersion(cli.ClientVersion()),
		client.WithDialContext(e.dialUnmetered))
}

// dial connects to the engine's socket, wherever the client thinks it goes.
func (e *engine) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := e.dialUnmetered(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &meteredConn{Conn: conn, limit: e.answerMax}, nil
}

func (e *engine) dialUnmetered(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", e.socket)
	if err != nil {
		return nil, &dialError{socket: e.socket, unit: e.unit, cause: err}
	}
	return conn, nil
}

// dialError says why the socket could not be connected to. It does not unwrap:
// the client replaces what it recognises as a permission or connection error
// by a text of its own and drops the cause.
type dialError struct {
	socket, unit string
	cause        error
}

func (d *dialError) Error() string {
	switch what := d.instead(); {
	case what != "":
		return fmt.Sprintf("engine socket %s is %s, no socket", d.socket, what)
	case errors.Is(d.cause, syscall.ECONNREFUSED):
		return fmt.Sprintf("engine socket %s: nobody listens", d.socket)
	case errors.Is(d.cause, fs.ErrNotExist):
		return fmt.Sprintf("engine socket %s does not exist", d.socket)
	}
	var sys *os.SyscallError
	if errors.As(d.cause, &sys) {
		return fmt.Sprintf("engine socket %s: %v", d.socket, sys.Err)
	}
	return fmt.Sprintf("engine socket %s cannot be connected to", d.socket)
}

// instead is what stands in the place of the socket. The kernel refuses a connection
// to it as it does one to a socket on which nobody listens.
func (d *dialError) instead() string {
	info, err := os.Stat(d.socket)
	switch {
	case err != nil || info.Mode().Type() == fs.ModeSocket:
		return ""
	case info.IsDir():
		return "a directory"
	case info.Mode().IsRegular():
		return "a plain file"
	default:
		return "something else (" + info.Mode().Type().String() + ")"
	}
}

func (d *dialError) hint() string {
	if d.instead() != "" {
		return "correct engine.socket, or move away what is there"
	}
	if d.denied() {
		return "run as root, or give this user access to the socket"
	}
	if d.unit != "" {
		return "is " + d.unit + " running?"
	}
	return "is the engine running?"
}

func (d *dialError) denied() bool { return errors.Is(d.cause, fs.ErrPermission) }

// longAnswerError is met in the place of what is beyond an answer's limit.
type longAnswerError struct{ limit int64 }

func (e *longAnswerError) Error() string {
	return fmt.Sprintf("it does not end within %d bytes, and none that makes sense is as long", e.limit)
}

// meteredConn is a connection that is read no further than the limit behind the last request that was written to it.
type meteredConn struct {
	net.Conn
	limit int64
	read  atomic.Int64
}

func (m *meteredConn) Write(p []byte) (int, error) {
	m.read.Store(0)
	return m.Conn.Write(p)
}

func (m *meteredConn) Read(p []byte) (int, error) {
	room := m.limit - m.read.Load()
	if room <= 0 && len(p) > 0 {
		return 0, &longAnswerError{m.limit}
	}
	n, err := m.Conn.Read(p[:min(int64(len(p)), room)])
	m.read.Add(int64(n))
	return n, err
}

// CloseWrite tells the engine that nothing will follow, on a connection that has become a stream.
func (m *meteredConn) CloseWrite() error {
	if half, ok := m.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
