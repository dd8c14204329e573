package container

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// fakeSystemd is a bus with systemd's manager on it, as far as this package asks for it. It speaks the wire protocol,
// over pipes or unix sockets, so that the real client libraries run against it, also in a synctest bubble.
type fakeSystemd struct {
	direct bool // be PID 1's own socket: no bus driver, and every signal goes to everybody

	mu      sync.Mutex
	units   map[dbus.ObjectPath]busProps
	jobs    map[uint32]sd.JobStatus
	lastJob uint32
	peers   map[*fakePeer]bool
	calls   []string
	down    error // what dialling answers
	answer  map[string]func(call *dbus.Message) fakeAnswer
	deaf    bool // lose the JobRemoved signals
}

// busProps are properties of a unit, as Go values.
type busProps map[string]any

// fakeAnswer is what a method call gets: a body, an error, or, when silent, nothing.
type fakeAnswer struct {
	body   []any
	err    *dbus.Error
	silent bool
}

// fakeJob is the D-Bus structure (uo) of the property Job.
type fakeJob struct {
	ID   uint32
	Path dbus.ObjectPath
}

const fakeUnit = "node-stack@kube1.service"

func newFakeSystemd() *fakeSystemd {
	return &fakeSystemd{
		units:  make(map[dbus.ObjectPath]busProps),
		jobs:   make(map[uint32]sd.JobStatus),
		peers:  make(map[*fakePeer]bool),
		answer: make(map[string]func(*dbus.Message) fakeAnswer),
	}
}

// newFakeBus returns a fake with one active unit and a Bus that talks to it. The Bus is closed with the test.
func newFakeBus(t *testing.T) (*fakeSystemd, *Bus) {
	t.Helper()
	f := newFakeSystemd()
	f.set(fakeUnit, activeUnit("11"))
	b := NewSystemd(time.Second)
	b.dial = f.dial
	b.ownCgroup = func() ([]byte, error) { return []byte("0::/user.slice\n"), nil }
	t.Cleanup(func() { b.Close() })
	return f, b
}

// activeUnit are the properties of a running service in the activation whose id is that byte, sixteen times.
func activeUnit(activation string) busProps {
	var id []byte
	if _, err := fmt.Sscanf(strings.Repeat(activation, 16), "%x", &id); err != nil {
		panic(err)
	}
	return busProps{
		"LoadState": "loaded", "LoadError": [2]string{}, "ActiveState": "active", "SubState": "running",
		"Result": "success", "Job": fakeJob{Path: "/"}, "InvocationID": id, "MainPID": uint32(4711),
	}
}

// set changes properties of a unit and says so to whoever subscribed.
func (f *fakeSystemd) set(unit string, changed busProps) {
	path := unitObject(unit)
	f.mu.Lock()
	if f.units[path] == nil {
		f.units[path] = make(busProps)
	}
	maps.Copy(f.units[path], changed)
	f.mu.Unlock()
	f.signal(path, propertiesIf, changedMember, "org.freedesktop.systemd1.Service", busVariants(changed), []string{})
}

// enqueue gives the unit a job of that type.
func (f *fakeSystemd) enqueue(unit, jobType string) uint32 {
	f.mu.Lock()
	f.lastJob++
	id := f.lastJob
	path := dbus.ObjectPath(fmt.Sprintf("/org/freedesktop/systemd1/job/%d", id))
	f.jobs[id] = sd.JobStatus{Id: id, Unit: unit, JobType: jobType, Status: "running", JobPath: path, UnitPath: unitObject(unit)}
	f.mu.Unlock()
	f.set(unit, busProps{"Job": fakeJob{id, path}})
	return id
}

// finish ends a job with a result, after the unit has changed to what the job made of it.
func (f *fakeSystemd) finish(id uint32, result string, changed busProps) {
	f.mu.Lock()
	job, deaf := f.jobs[id], f.deaf
	delete(f.jobs, id)
	f.mu.Unlock()
	changed = maps.Clone(changed)
	changed["Job"] = fakeJob{Path: "/"}
	f.set(job.Unit, changed)
	if !deaf {
		f.signal(systemdPath, "org.freedesktop.systemd1.Manager", "JobRemoved", id, job.JobPath, job.Unit, result)
	}
}

// onRestart lets RestartUnit enqueue a job and then run what the job does.
func (f *fakeSystemd) onRestart(work func(job uint32)) {
	f.on("RestartUnit", func(call *dbus.Message) fakeAnswer {
		id := f.enqueue(call.Body[0].(string), "restart")
		go work(id)
		return fakeAnswer{body: []any{dbus.ObjectPath(fmt.Sprintf("/org/freedesktop/systemd1/job/%d", id))}}
	})
}

// on replaces the answer to a method.
func (f *fakeSystemd) on(member string, answer func(*dbus.Message) fakeAnswer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer[member] = answer
}

// refuse lets dialling fail, or work again with nil.
func (f *fakeSystemd) refuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
}

// hangUp closes every connection, as the end of the bus daemon does.
func (f *fakeSystemd) hangUp() {
	f.mu.Lock()
	peers := slices.Collect(maps.Keys(f.peers))
	f.mu.Unlock()
	for _, p := range peers {
		p.conn.Close()
	}
}

// called counts the calls of a method.
func (f *fakeSystemd) called(member string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, call := range f.calls {
		if call == member {
			n++
		}
	}
	return n
}

// dial is the client's end of a new connection, as dialer.dial makes it.
func (f *fakeSystemd) dial(ctx context.Context) (*dbus.Conn, error) {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down != nil {
		return nil, down
	}
	client, server := net.Pipe()
	go f.serve(server)
	conn, err := handshake(ctx, func(opts ...dbus.ConnOption) (*dbus.Conn, error) { return dbus.NewConn(client, opts...) })
	if err == nil && !f.direct {
		err = conn.Hello()
	}
	return conn, err
}

// listen serves the fake on a unix socket and returns its D-Bus address.
func (f *fakeSystemd) listen(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bus")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(conn)
		}
	}()
	return "unix:path=" + path
}

// fakePeer is the server's end of one connection.
type fakePeer struct {
	conn net.Conn
	mu   sync.Mutex // one message at a time

	matches    []string // guarded by fakeSystemd.mu, like the next
	subscribed bool
}

func (p *fakePeer) send(m *dbus.Message) {
	if len(m.Body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(m.Body...))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := m.EncodeTo(p.conn, binary.LittleEndian); err != nil && !errors.Is(err, net.ErrClosed) &&
		!errors.Is(err, io.ErrClosedPipe) {
		p.conn.Close()
	}
}

// serve answers one client until it goes away.
func (f *fakeSystemd) serve(conn net.Conn) {
	peer := &fakePeer{conn: conn}
	f.mu.Lock()
	f.peers[peer] = true
	f.mu.Unlock()
	defer func() {
		conn.Close()
		f.mu.Lock()
		delete(f.peers, peer)
		f.mu.Unlock()
	}()
	in := bufio.NewReader(conn)
	if !authenticate(in, conn) {
		return
	}
	for {
		call, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		f.reply(peer, call)
	}
}

// authenticate is the server's side of SASL: it lets everybody in.
func authenticate(in *bufio.Reader, out io.Writer) bool {
	if nul, err := in.ReadByte(); err != nil || nul != 0 {
		return false
	}
	for {
		line, err := in.ReadString('\n')
		answer := ""
		switch strings.TrimSpace(line) {
		case "AUTH":
			answer = "REJECTED EXTERNAL"
		case "AUTH EXTERNAL":
			answer = "DATA"
		case "DATA":
			answer = "OK 0123456789abcdef0123456789abcdef"
		case "BEGIN":
			return true
		default:
			answer = "ERROR"
		}
		if err != nil {
			return false
		}
		if _, err := io.WriteString(out, answer+"\r\n"); err != nil {
			return false
		}
	}
}

func (f *fakeSystemd) reply(peer *fakePeer, call *dbus.Message) {
	member, _ := call.Headers[dbus.FieldMember].Value().(string)
	f.mu.Lock()
	f.calls = append(f.calls, member)
	answer := f.answer[member]
	f.mu.Unlock()
	var a fakeAnswer
	if answer != nil {
		a = answer(call)
	} else {
		a = f.standard(peer, member, call)
	}
	if a.silent {
		return
	}
	reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(call.Serial())}, Body: a.body}
	if a.err != nil {
		reply.Type, reply.Body = dbus.TypeError, a.err.Body
		reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant(a.err.Name)
	}
	peer.send(reply)
}

// standard is the answer of a healthy systemd, or of the bus driver.
func (f *fakeSystemd) standard(peer *fakePeer, member string, call *dbus.Message) fakeAnswer {
	f.mu.Lock()
	defer f.mu.Unlock()
	path, _ := call.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	switch {
	case member == "Hello" && !f.direct:
		return fakeAnswer{body: []any{":1.7"}}
	case member == "AddMatch" && !f.direct:
		peer.matches = append(peer.matches, call.Body[0].(string))
		return fakeAnswer{}
	case member == "Subscribe":
		peer.subscribed = true
		return fakeAnswer{}
	case member == "Reload", member == "ResetFailedUnit":
		return fakeAnswer{}
	case member == "GetAll":
		unit, ok := f.units[path]
		if !ok {
			unit = busProps{"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "Job": fakeJob{Path: "/"},
				"LoadError": [2]string{"org.freedesktop.systemd1.NoSuchUnit", "Unit not found."}}
		}
		return fakeAnswer{body: []any{busVariants(unit)}}
	case member == "ListJobs":
		jobs := slices.AppendSeq([]sd.JobStatus{}, maps.Values(f.jobs))
		return fakeAnswer{body: []any{jobs}}
	}
	return fakeAnswer{err: dbus.NewError("org.freedesktop.DBus.Error.UnknownMethod", []any{"Unknown method " + member + "."})}
}

// signal sends a signal to everybody who asked for it.
func (f *fakeSystemd) signal(path dbus.ObjectPath, iface, member string, body ...any) {
	f.mu.Lock()
	subscribed := f.direct || member == "JobRemoved" // which goes to a job's own client in any case
	for p := range f.peers {
		subscribed = subscribed || p.subscribed
	}
	var peers []*fakePeer
	for p := range f.peers {
		if subscribed && (f.direct || slices.ContainsFunc(p.matches, func(rule string) bool {
			return ruleMatches(rule, map[string]string{"type": "signal", "sender": systemdName, "interface": iface,
				"member": member, "path": string(path)})
		})) {
			peers = append(peers, p)
		}
	}
	f.mu.Unlock()
	for _, p := range peers {
		p.send(&dbus.Message{Type: dbus.TypeSignal, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath: dbus.MakeVariant(path), dbus.FieldInterface: dbus.MakeVariant(iface),
			dbus.FieldMember: dbus.MakeVariant(member), dbus.FieldSender: dbus.MakeVariant(systemdName)}})
	}
}

// ruleMatches tells whether a match rule accepts a message.
func ruleMatches(rule string, message map[string]string) bool {
	for term := range strings.SplitSeq(rule, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(term), "=")
		if message[key] != strings.Trim(value, "'") {
			return false
		}
	}
	return true
}

func busVariants(values busProps) map[string]dbus.Variant {
	out := make(map[string]dbus.Variant, len(values))
	for name, value := range values {
		if pair, ok := value.([2]string); ok {
			value = struct{ Name, Text string }{pair[0], pair[1]}
		}
		out[name] = dbus.MakeVariant(value)
	}
	return out
}
