package cloud

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	cloudprovider "k8s.io/cloud-provider"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func ask(g *guard, object string, f func(context.Context) (int, error)) (int, error) {
	return call(context.Background(), g, "Method", object, f)
}

func TestGuard(t *testing.T) {
	t.Run("answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(t.Context(), "p", time.Minute, quiet(), newGate())
			if n, err := ask(g, "a", func(context.Context) (int, error) { return 3, nil }); n != 3 || err != nil {
				t.Error(n, err)
			}
			// Upstream compares errors, so they come as they are.
			if _, err := ask(g, "a", func(context.Context) (int, error) { return 0, cloudprovider.InstanceNotFound }); err != cloudprovider.InstanceNotFound { //nolint:errorlint // as upstream
				t.Error(err)
			}
			if _, err := ask(g, "a", func(context.Context) (int, error) { panic("boo") }); err == nil || err.Error() != "cloud provider p: Method of a: panic: boo" {
				t.Error(err)
			}
			if n, err := ask(g, "a", func(context.Context) (int, error) { return 4, nil }); n != 4 || err != nil {
				t.Error("after a panic:", n, err)
			}
			synctest.Wait() // a turn ends after its answer
			if len(g.turns) != 0 {
				t.Errorf("%d turns are left", len(g.turns))
			}
		})
	})
	t.Run("hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(t.Context(), "p", time.Minute, quiet(), newGate())
			let := make(chan struct{})
			began := time.Now()
			_, err := ask(g, "a", func(context.Context) (int, error) { <-let; return 1, nil })
			if err == nil || err.Error() != "cloud provider p: Method of a: no answer within 1m0s (providerTimeout)" || time.Since(began) != time.Minute {
				t.Error(time.Since(began), err)
			}
			// Others go on; the same object is refused at once, until the call returns.
			if n, err := ask(g, "b", func(context.Context) (int, error) { return 2, nil }); n != 2 || err != nil {
				t.Error(n, err)
			}
			began = time.Now()
			if _, err := ask(g, "a", func(context.Context) (int, error) { return 1, nil }); err == nil || !strings.Contains(err.Error(), "an earlier call has not returned yet") || time.Since(began) != 0 {
				t.Error(time.Since(began), err)
			}
			close(let)
			synctest.Wait()
			if n, err := ask(g, "a", func(context.Context) (int, error) { return 5, nil }); n != 5 || err != nil {
				t.Error("when it has returned:", n, err)
			}
		})
	})
	t.Run("in turn", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(t.Context(), "p", time.Minute, quiet(), newGate())
			var under, most atomic.Int32
			for range 5 {
				go func() {
					if _, err := ask(g, "a", func(context.Context) (int, error) {
						most.Store(max(most.Load(), under.Add(1)))
						time.Sleep(time.Second)
						under.Add(-1)
						return 0, nil
					}); err != nil {
						t.Error(err)
					}
				}()
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if most.Load() != 1 {
				t.Errorf("%d calls about one object were under way", most.Load())
			}
		})
	})
	t.Run("ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(t.Context(), "p", time.Minute, quiet(), newGate())
			ctx, cancel := context.WithCancel(t.Context())
			returned := false
			go func() {
				time.Sleep(time.Second)
				cancel()
			}()
			_, err := call(ctx, g, "Method", "a", func(context.Context) (int, error) {
				time.Sleep(10 * time.Second) // it does not look at the context
				returned = true
				return 0, nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			g.gate.close()
			if !returned {
				t.Error("the end did not wait for the call")
			}
			if _, err := ask(g, "b", func(context.Context) (int, error) { return 1, nil }); !errors.Is(err, errEnded) {
				t.Error("after the end:", err)
			}
		})
	})
}

// TestEndCancels: upstream makes some calls with a context that does not end. The end of
// the guard cancels them, and those that wait for their turn.
func TestEndCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end, cancel := context.WithCancel(t.Context())
		g := newGuard(end, "p", time.Hour, quiet(), newGate())
		began, returned := time.Now(), make(chan error, 2)
		for range 2 {
			go func() {
				_, err := ask(g, "a", func(ctx context.Context) (int, error) {
					<-ctx.Done()
					return 0, ctx.Err()
				})
				returned <- err
			}()
		}
		synctest.Wait()
		cancel()
		g.gate.close()
		for range 2 {
			if err := <-returned; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("the end waited %s", d)
		}
	})
}

// roundTrip is a transport of one function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestGate: no request is under way when the gate is closed, and none goes out after that.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, sent := newGate(), 0
		client := &http.Client{Transport: g.wrap(roundTrip(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			sent++
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(""))}, nil
		}))}
		send := func() error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://x/", strings.NewReader("body"))
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err == nil {
				err = resp.Body.Close()
			}
			return err
		}
		go func() {
			if err := send(); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		g.close()
		if sent != 1 {
			t.Error("the end did not wait for the request")
		}
		if err := send(); !errors.Is(err, errEnded) || sent != 1 {
			t.Errorf("after the end: %v, %d requests", err, sent)
		}
	})
}
