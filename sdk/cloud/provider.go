package cloud

import (
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/transport"
)

// Kind is the kind of such plugins in manifests.
const Kind = "cloud"

// Provider names a cloud provider and how one is made.
type Provider struct {
	// Name of the plugin, as in the manifest.
	Name string
	// New builds the provider: it asks Context.Informers for what it reads, and starts
	// nothing. What it starts, Initialize starts. A changed configuration is tried by a
	// New beside the provider that runs; an error refuses the change.
	//
	// What the provider does not have, its methods answer with false, as upstream: the
	// controllers for that do not run.
	New func(c *Context) (cloudprovider.Interface, error)
}

// Context is what a provider works with.
type Context struct {
	Name     string
	NodeName string // of the machine, empty where there is none
	Logger   *slog.Logger

	// Config is what the plugin's configuration has beside the settings of the
	// controllers, as a JSON object; empty means defaults. Decode reads it.
	Config []byte

	// RESTConfig speaks with the plugin's own identity. No client-side rate limit is set.
	RESTConfig *rest.Config
	// Client is a typed client over RESTConfig, in protobuf.
	Client kubernetes.Interface
	// Informers reads with the bundle's identity and is shared by all of the process:
	// objects in its caches must not be changed. Handlers that are added here stay.
	Informers informers.SharedInformerFactory
}

// Withdrawn is an error of EnsureLoadBalancer by which a provider says that a service has no
// address any more. Upstream's controller leaves the status of a service as it is after an
// error. After this one the status is emptied, and the controller goes on with the error:
// it tells it in an event, and tries again as Err wants (api.RetryError).
type Withdrawn struct {
	// Err says which address, and why. It is not nil.
	Err error
}

// Error is that of Err.
func (w *Withdrawn) Error() string { return w.Err.Error() }

// Unwrap returns Err.
func (w *Withdrawn) Unwrap() error { return w.Err }

// Decode reads the configuration into a struct that has the defaults. A key that it does
// not have is an error.
func (c *Context) Decode(into any) error { return controller.DecodeConfig(c.Config, into) }

// Serve serves the providers until the kernel asks the process to stop.
func Serve(providers ...Provider) {
	list := make([]controller.Controller, 0, len(providers))
	for _, p := range providers {
		list = append(list, Plugin(p))
	}
	controller.Serve(list...)
}

// Service is Serve for a bundle that holds other kinds as well (sdk.AddService).
func Service(providers ...Provider) transport.Service {
	list := make([]controller.Controller, 0, len(providers))
	for _, p := range providers {
		list = append(list, Plugin(p))
	}
	return controller.Service(list...)
}

// Plugin makes a provider one of the plugins that controller.Serve serves. Beside
// controllers it shares their informers.
func Plugin(p Provider) controller.Controller {
	tellMetrics()
	return controller.Controller{Name: p.Name, Kind: Kind, New: func(c *controller.Context) (controller.Runner, error) {
		r, err := build(p, c)
		if err != nil {
			return nil, fmt.Errorf("cloud provider %s: %w", p.Name, err)
		}
		return r, nil
	}}
}

// build makes a provider, which is not asked anything yet.
func build(p Provider, c *controller.Context) (*runner, error) {
	settings, own, err := readSettings(c.Config)
	if err != nil {
		return nil, err
	}
	r := &runner{name: p.Name, settings: settings, log: c.Logger, gate: newGate()}
	r.config = rest.CopyConfig(c.RESTConfig)
	r.config.Wrap(r.gate.wrap)
	if r.client, err = kubernetes.NewForConfig(inProtobuf(r.config)); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	// They are started when New has returned.
	r.services, r.nodes = c.Informers.Core().V1().Services(), c.Informers.Core().V1().Nodes()
	r.services.Informer()
	r.nodes.Informer()
	made, err := p.New(&Context{
		Name: p.Name, NodeName: c.NodeName, Logger: c.Logger, Config: own,
		RESTConfig: rest.CopyConfig(r.config), Client: r.client, Informers: c.Informers,
	})
	if err != nil {
		return nil, err
	}
	if made == nil {
		return nil, errors.New("New made none")
	}
	r.made = made
	return r, nil
}

// inProtobuf is for typed clients of built-in kinds.
func inProtobuf(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.ContentType = "application/vnd.kubernetes.protobuf"
	c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return c
}

// clients is upstream's way to hand clients out: all have the plugin's own identity.
type clients struct {
	config *rest.Config
	client kubernetes.Interface
}

var _ cloudprovider.ControllerClientBuilder = clients{}

// Config is a configuration that names the part of the provider in its requests.
func (c clients) Config(name string) (*rest.Config, error) {
	return rest.AddUserAgent(rest.CopyConfig(c.config), name), nil
}

// ConfigOrDie is Config, which does not fail.
func (c clients) ConfigOrDie(name string) *rest.Config {
	return rest.AddUserAgent(rest.CopyConfig(c.config), name)
}

// Client is the one client.
func (c clients) Client(string) (kubernetes.Interface, error) { return c.client, nil }

// ClientOrDie is Client, which does not fail.
func (c clients) ClientOrDie(string) kubernetes.Interface { return c.client }
