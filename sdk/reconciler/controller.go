package reconciler

import (
	"fmt"
	"time"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/reconciler/protocol"
)

// Resource names a resource of the API in one version: Resource{Version: "v1",
// Resource: "configmaps"}.
type Resource = protocol.Resource

// Key names the object that Reconcile is asked about.
type Key = protocol.Key

// Result says when to ask again without a change; the zero Result: not before
// something changes.
type Result struct {
	RequeueAfter time.Duration
}

// Controller is a reconciler and what it watches.
type Controller struct {
	Name string
	// For is the resource whose keys are reconciled.
	For Resource
	// Owns are resources whose controller owner is reconciled when they change.
	Owns []Resource
	// Configure takes the controller's configuration as JSON; nil: it has none. No
	// bytes are no configuration: the controller goes by its defaults.
	Configure func(config []byte) error
	// Reconcile brings the world to what the object asks for. The object may be
	// gone. An error asks again with back-off.
	Reconcile func(h *Host, key Key) (Result, error)
}

// registered holds what Register was given; written from init functions only.
var registered []Controller

// Register adds a controller to this bundle. Call it from init; what cannot be
// served is a mistake of the author and panics, so that the first test shows it.
func Register(c Controller) {
	switch {
	case c.Reconcile == nil:
		panic("reconciler.Register: controller " + c.Name + " has no Reconcile")
	case c.For.Version == "" || c.For.Resource == "":
		panic("reconciler.Register: controller " + c.Name + ": For names no version and resource")
	}
	for _, o := range c.Owns {
		if o.Version == "" || o.Resource == "" {
			panic("reconciler.Register: controller " + c.Name + ": Owns names no version and resource")
		}
	}
	for _, other := range registered {
		if other.Name == c.Name {
			panic("reconciler.Register: " + c.Name + " is registered twice")
		}
	}
	registered = append(registered, c)
	announce(c)
}

// call runs Reconcile once; a panic becomes an error.
func (c *Controller) call(h *Host, key Key) (result Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("controller %s panicked over %s: %v", c.Name, key, r)
		}
	}()
	return c.Reconcile(h, key)
}

// Serve serves everything registered in this binary; it is sdk.Serve.
func Serve() { sdk.Serve() }
