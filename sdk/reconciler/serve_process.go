//go:build !wasip1

package reconciler

import (
	"context"
	"fmt"
	"time"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/reconciler/loop"
	"pintle.dev/pintle/sdk/reconciler/protocol"
	plugintransport "pintle.dev/pintle/sdk/transport"
)

// transport of a process, or of a test: functions of this program.
type transport struct {
	operate func(function string, request []byte) []byte
}

// HostOver returns a Host whose functions are operate's: it takes a
// protocol.Request and returns a protocol.Answer, both as JSON. Tests pass the
// Operate of loop.Operations over a fake client.
func HostOver(operate func(function string, request []byte) []byte) *Host {
	return &Host{transport{operate: operate}}
}

func callGet(h *Host, r []byte) []byte    { return h.operate(protocol.FunctionGet, r) }
func callList(h *Host, r []byte) []byte   { return h.operate(protocol.FunctionList, r) }
func callCreate(h *Host, r []byte) []byte { return h.operate(protocol.FunctionCreate, r) }
func callUpdate(h *Host, r []byte) []byte { return h.operate(protocol.FunctionUpdate, r) }
func callPatch(h *Host, r []byte) []byte  { return h.operate(protocol.FunctionPatch, r) }
func callDelete(h *Host, r []byte) []byte { return h.operate(protocol.FunctionDelete, r) }
func callEvent(h *Host, r []byte) []byte  { return h.operate(protocol.FunctionEvent, r) }
func callLog(h *Host, r []byte) []byte    { return h.operate(protocol.FunctionLog, r) }

// announce: a process serves its controllers through sdk/controller.
func announce(Controller) {
	if len(registered) == 1 {
		sdk.AddService(Service)
	}
}

// Service serves the registered controllers beside other kinds.
func Service() plugintransport.Service {
	controllers := make([]controller.Controller, 0, len(registered))
	for _, c := range registered {
		controllers = append(controllers, c.controller())
	}
	return controller.Service(controllers...)
}

// controller makes the reconciler an ordinary controller, with the loop that
// the kernel runs for a WASM module.
func (c Controller) controller() controller.Controller {
	var turns turns
	return controller.Controller{Name: c.Name, New: func(with *controller.Context) (controller.Runner, error) {
		if len(with.Config) > 0 {
			if c.Configure == nil {
				return nil, fmt.Errorf("%s takes no configuration", c.Name)
			}
			if err := turns.configure(func() error { return c.Configure(with.Config) }); err != nil {
				return nil, fmt.Errorf("configure %s: %w", c.Name, err)
			}
		}
		return controller.RunnerFunc(func(ctx context.Context) error {
			if ctx.Err() != nil {
				return nil // built to try a configuration
			}
			operations, err := loop.NewOperations(c.Name, with.RESTConfig, with.Logger)
			if err != nil {
				return err
			}
			defer operations.Close()
			l, err := loop.New(loop.Config{
				Name: c.Name, For: c.For, Owns: c.Owns, REST: with.RESTConfig, Log: with.Logger,
				Reconcile: func(ctx context.Context, key Key) (result loop.Result, err error) {
					turns.reconcile(ctx, func(ctx context.Context) {
						h := HostOver(func(function string, request []byte) []byte { return operations.Operate(ctx, function, request) })
						began := time.Now()
						var r Result
						r, err = c.call(h, key)
						controller.Reconciled(c.Name, outcome(r, err), time.Since(began))
						result.RequeueAfter = r.RequeueAfter
					})
					return result, err
				},
			})
			if err != nil {
				return err
			}
			return l.Run(ctx)
		}), nil
	}}
}

func outcome(r Result, err error) string {
	switch {
	case err != nil:
		return controller.ResultError
	case r.RequeueAfter > 0:
		return controller.ResultRequeueAfter
	}
	return controller.ResultSuccess
}

// Reconcile asks a registered controller about one key; it is for tests.
func Reconcile(name string, h *Host, key Key) (Result, error) {
	for i := range registered {
		if registered[i].Name == name {
			return registered[i].call(h, key)
		}
	}
	return Result{}, fmt.Errorf("no controller %s is registered", name)
}
