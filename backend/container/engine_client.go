package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// slowFactor times the call timeout is what requests get that move data
// inside the engine: create, start, remove, and measuring a writable layer.
const slowFactor = 12

// errNoAnswer is the cause of a request that ran into its own deadline.
var errNoAnswer = errors.New("no answer")

// engine is the lazily opened connection to the container engine. A client is
// thrown away after a request on it broke, because the engine that comes back
// may be a different version and the API version is negotiated only once.
type engine struct {
	socket, unit string
	timeout      time.Duration
	answerMax    int64

	mu     sync.Mutex
	cli    *client.Client
	podman *bool // whether it is Podman; nil: not asked yet
	closed bool
}

func newEngine(socket, unit string, timeout time.Duration) *engine {
	return &engine{socket: socket, unit: unit, timeout: timeout, answerMax: answerMax}
}

func (e *engine) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.cli != nil {
		_ = e.cli.Close() // only closes idle connections; cannot fail
		e.cli = nil
	}
}

// slow is the deadline of requests that move data inside the engine.
func (e *engine) slow() time.Duration { return slowFactor * e.timeout }

// connect returns a client that has agreed on an API version with the engine.
func (e *engine) connect(ctx context.Context) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	e.mu.Lock()
	cli, closed := e.cli, e.closed
	e.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	if cli != nil {
		return cli, nil
	}
	cli, err := client.New(client.WithHost("unix://"+e.socket), client.WithDialContext(e.dial))
	if err != nil {
		return nil, &Error{Err: err, Hint: "correct engine.socket", kind: kindMisconfigured}
	}
	if _, err := cli.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		_ = cli.Close()
		return nil, err
	}
	return e.keep(cli), nil
}

// keep makes cli the current client, unless another goroutine was faster.
func (e *engine) keep(cli *client.Client) *client.Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return cli // used once more by the request in hand
	}
	if e.cli != nil {
		_ = cli.Close()
		return e.cli
	}
	e.cli = cli
	return cli
}

// drop forgets cli after a request on it broke.
func (e *engine) drop(cli *client.Client) {
	if cli == nil {
		return
	}
	_ = cli.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cli == cli {
		e.cli, e.podman = nil, nil
	}
}

// call runs one request under its own deadline, so that an engine that hangs
// costs limit and not the caller's whole budget.
func call[T any](ctx context.Context, e *engine, op string, limit time.Duration,
	fn func(context.Context, *client.Client) (T, error),
) (T, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, limit, errNoAnswer)
	defer cancel()
	for retry := true; ; retry = false {
		var out T
		cli, err := e.connect(bounded)
		if err == nil {
			out, err = fn(bounded, cli)
		}
		if err == nil {
			return out, nil
		}
		if retry && outdated(err) {
			e.drop(cli) // the engine was replaced by one that refuses the old API version
			continue
		}
		if !answered(err) {
			e.drop(cli)
		}
		var zero T
		return zero, e.explain(ctx, bounded, op, limit, err)
	}
}

// open is call for requests whose answer is a stream: limit bounds the time to
// the first byte of the answer, not the stream; 0 is no limit. The caller must
// call stop.
func open[T any](ctx context.Context, e *engine, op string, limit time.Duration,
	fn func(context.Context, *client.Client) (T, error),
) (out T, stop context.CancelFunc, err error) {
	if limit <= 0 {
		limit = time.Duration(math.MaxInt64)
	}
	streamCtx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(errNoAnswer) })
	cli, err := e.connect(streamCtx)
	if err == nil {
		out, err = fn(streamCtx, cli)
	}
	if !timer.Stop() && err == nil {
		err = errNoAnswer // too late: the stream was cancelled while it opened
	}
	if err != nil {
		if !answered(err) {
			e.drop(cli)
		}
		err = e.explain(ctx, streamCtx, op, limit, err)
		cancel(nil)
		return out, func() {}, err
	}
	return out, func() { cancel(nil) }, nil
}

// answered reports whether err is an answer of the engine, as opposed to a
// connection that could not be made, broke or stayed silent.
func answered(err error) bool {
	for _, is := range []func(error) bool{
		cerrdefs.IsNotFound, cerrdefs.IsConflict, cerrdefs.IsInvalidArgument, cerrdefs.IsInternal,
		cerrdefs.IsUnauthorized, cerrdefs.IsPermissionDenied, cerrdefs.IsUnavailable,
		cerrdefs.IsNotImplemented, cerrdefs.IsResourceExhausted, cerrdefs.IsFailedPrecondition,
	} {
		if is(err) {
			return true
		}
	}
	// Of a refused command the client keeps nothing but this text.
	return err != nil && strings.Contains(err.Error(), "unable to upgrade to ")
}

// outdated reports whether the engine refuses the API version agreed on
// earlier, which happens when a newer engine took over the socket.
func outdated(err error) bool {
	return cerrdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "client version")
}

// explain turns what the client returned into an Error. bounded is the context
// the request ran under, ctx the one it was derived from.
func (e *engine) explain(ctx, bounded context.Context, op string, limit time.Duration, err error) error {
	var dial *dialError
	var own *Error
	switch {
	case errors.As(err, &own):
		return &Error{Op: op, Err: own}
	case errors.Is(ctx.Err(), context.Canceled):
		return &Error{Op: op, Err: ended(ctx)}
	case ctx.Err() != nil:
		return &Error{Op: op, Err: fmt.Errorf("no answer of the engine: %w", ended(ctx)), kind: kindUnreachable}
	case bounded.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		// Not context.DeadlineExceeded: the caller's own time is not over.
		return &Error{Op: op, Err: fmt.Errorf("%w of the engine within %s", errNoAnswer, limit), kind: kindUnreachable}
	case errors.As(err, &dial):
		k := kindUnreachable
		if dial.denied() {
			k = kindDenied
		}
		return &Error{Op: op, Err: dial, Hint: dial.hint(), kind: k}
	case cerrdefs.IsUnauthorized(err), cerrdefs.IsPermissionDenied(err):
		return &Error{Op: op, Err: &answerError{err}, kind: kindDenied}
	case answered(err):
		return &Error{Op: op, Err: &answerError{err}}
	default:
		var request *url.Error
		if errors.As(err, &request) {
			err = request.Err // the request itself is named by op
		}
		return &Error{Op: op, Err: fmt.Errorf("%s: %w", fault(err), err), kind: kindUnreachable}
	}
}

// fault says what is wrong with an answer that has come, or has not.
func fault(err error) string {
	var (
		long   *longAnswerError
		syntax *json.SyntaxError
		value  *json.UnmarshalTypeError
		moment *time.ParseError
	)
	switch {
	case errors.As(err, &long):
		return "the engine's answer is of no use"
	case errors.As(err, &syntax), errors.As(err, &value), errors.As(err, &moment), strings.Contains(err.Error(), "malformed HTTP"):
		return "the engine's answer cannot be understood; is something else at its socket?"
	default:
		return "the connection to the engine broke"
	}
}

// ended is the error of a context that is over, with its cause if it has one.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return cause
}

// answerError is an answer of the engine that says no. Only its text differs
// from what the client makes of it.
type answerError struct{ err error }

func (a *answerError) Error() string {
	text := strings.TrimPrefix(a.err.Error(), "Error response from daemon: ")
	return "the engine answers: " + text
}

func (a *answerError) Unwrap() error { return a.err }

// isNotFound reports whether the engine answered that there is no such object.
func isNotFound(err error) bool { return cerrdefs.IsNotFound(err) }

// Ping asks the engine whether it is there. It waits one call timeout at most.
func (c *Controller) Ping(ctx context.Context) error {
	_, err := call(ctx, c.engine, "ask whether the engine is there", c.opts.CallTimeout,
		func(ctx context.Context, cli *client.Client) (client.PingResult, error) {
			return cli.Ping(ctx, client.PingOptions{})
		})
	return err
}

// WaitEngine asks until the engine answers, ctx ends or this user turns out to
// have no access. The error holds the last cause.
func (c *Controller) WaitEngine(ctx context.Context) error {
	var last error
	for {
		err := c.Ping(ctx)
		if err == nil || isDenied(err) {
			return err
		}
		if last == nil || ctx.Err() == nil {
			last = err // one that only tells that the time is over says less
		}
		if !pause(ctx, c.opts.PollInterval) {
			return &Error{
				Op:   "wait for the engine",
				Err:  givenUp{cause(last), ended(ctx)},
				Hint: hint(last), kind: kindUnreachable,
			}
		}
	}
}

// cause is what went wrong, without what was being done.
func cause(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// hint is what to do about it.
func hint(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// isPodman reports whether the engine is Podman; false when it does not say.
func (e *engine) isPodman(ctx context.Context) (bool, error) {
	e.mu.Lock()
	known := e.podman
	e.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	v, err := call(ctx, e, "ask the engine for its version", e.timeout,
		func(ctx context.Context, cli *client.Client) (client.ServerVersionResult, error) {
			return cli.ServerVersion(ctx, client.ServerVersionOptions{})
		})
	if err != nil {
		return false, err
	}
	podman := false
	for _, part := range v.Components {
		podman = podman || strings.Contains(strings.ToLower(part.Name), "podman")
	}
	e.mu.Lock()
	e.podman = &podman
	e.mu.Unlock()
	return podman, nil
}
