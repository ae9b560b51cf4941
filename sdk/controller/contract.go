package controller

import (
	"context"
	"log/slog"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Controller names a controller and how one is made.
type Controller struct {
	Name string
	// Kind is that of the plugin in the manifest: empty means controller. A cloud
	// provider is run as one (sdk/cloud).
	Kind string
	// New builds the controller: it asks Context.Informers for what it needs
	// and starts nothing. The informers are started after it returned. A changed
	// configuration is tried by a New beside the controller that runs: what
	// comes of it is run with a context that is over, and an error refuses the
	// change.
	New func(c *Context) (Runner, error)
}

// Runner is a built controller. Run works until ctx ends and returns when its
// goroutines have ended; it waits for its informers' caches itself and takes
// its event handlers off shared informers before it returns.
type Runner interface {
	Run(ctx context.Context) error
}

// RunnerFunc is a Runner of one function.
type RunnerFunc func(ctx context.Context) error

// Run calls f.
func (f RunnerFunc) Run(ctx context.Context) error { return f(ctx) }

// Context is what a controller works with.
type Context struct {
	Name     string
	NodeName string // of the machine, empty where there is none
	Config   []byte // JSON; empty means defaults
	Logger   *slog.Logger

	// RESTConfig speaks with the controller's own identity; the controller may
	// change it. No client-side rate limit is set.
	RESTConfig *rest.Config
	// Client is a typed client over RESTConfig, in protobuf.
	Client kubernetes.Interface

	// BundleConfig speaks with the bundle's identity, which may only read.
	BundleConfig *rest.Config
	// Informers reads with the bundle's identity and is shared by all
	// controllers of the process: objects in its caches must not be changed. They
	// have no managed fields.
	Informers informers.SharedInformerFactory
}
