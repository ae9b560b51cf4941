package controller

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/metrics"
	"pintle.dev/pintle/sdk/transport"
)

const (
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 30 * time.Second
	// settled is how long a run must last for the back-off to start over.
	settled = time.Minute
)

// Serve serves the controllers until the kernel asks the process to stop.
// Which of them run is the kernel's to say.
func Serve(controllers ...Controller) {
	klog.SetSlogLogger(slog.New(machinery{transport.Logger().Handler()}))
	if err := transport.Serve(Service(controllers...), metrics.Service()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Service is Serve for a bundle that holds other kinds as well. What its queues
// count is told where metrics.Service is served beside it, as sdk.Serve does.
func Service(controllers ...Controller) transport.Service {
	processMeasures.begin()
	s := &service{byName: map[string]Controller{}, running: map[string]*run{}, configs: map[string][]byte{}, log: transport.Logger()}
	for _, c := range controllers {
		s.byName[c.Name] = c
		s.names = append(s.names, c.Name)
	}
	slices.Sort(s.names)
	return s
}

// service hosts the controllers; it is the process's side of the contract.
type service struct {
	names  []string
	byName map[string]Controller
	log    *slog.Logger

	mu        sync.Mutex
	running   map[string]*run
	configs   map[string][]byte
	socket    string
	reader    *rest.Config
	informers informers.SharedInformerFactory
	stop      chan struct{} // ends the informers
}

// run is one controller that shall run, with its goroutine.
type run struct {
	spec     *contractv1.ControllerSpec
	nodeName string
	cancel   context.CancelFunc
	done     chan struct{}

	mu       sync.Mutex
	up       bool
	message  string
	restarts uint64
}

// server serves the wire contract over the service.
type server struct {
	contractv1.UnimplementedControllersServer
	*service
}

var _ transport.Service = (*service)(nil)

func (s *service) RegisterWith(r grpc.ServiceRegistrar) {
	contractv1.RegisterControllersServer(r, &server{service: s})
}

func (s *service) Describe() []*contractv1.PluginDescription {
	var list []*contractv1.PluginDescription
	for _, name := range s.names {
		list = append(list, &contractv1.PluginDescription{Name: name, Kind: cmp.Or(s.byName[name].Kind, "controller")})
	}
	return list
}

// Configure keeps a controller's configuration for its next start. One that runs
// is built with it first, and runs on as it was where that fails.
func (s *service) Configure(name string, config []byte) error {
	if len(config) > 0 && !json.Valid(config) {
		return fmt.Errorf("configuration of %s: it is no JSON", name)
	}
	s.mu.Lock()
	r, reader := s.running[name], s.reader
	s.mu.Unlock()
	if r != nil {
		if err := r.try(s.byName[name], config, reader, s.log); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configs[name] = config
	return nil
}

// Health is the process's; a controller that fails is told by Status and
// started again here, without the others.
func (s *service) Health() error { return nil }

// Stop ends all controllers at once and then the informers.
func (s *service) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.end(ctx, s.names...); err != nil {
		return err
	}
	s.endInformers()
	return nil
}

func (s *server) Start(ctx context.Context, req *contractv1.ControllerStart) (*contractv1.ControllerStarted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[string]*contractv1.ControllerSpec{}
	for _, spec := range req.GetControllers() {
		if _, ok := s.byName[spec.GetName()]; !ok {
			return nil, status.Error(codes.NotFound, fmt.Sprintf("%v: %s (it has %s)", ErrUnknown, spec.GetName(), strings.Join(s.names, ", ")))
		}
		if len(spec.GetConfig()) == 0 {
			spec.Config = s.configs[spec.GetName()]
		}
		wanted[spec.GetName()] = spec
	}
	var leave []string
	for name, r := range s.running {
		w := wanted[name]
		if w == nil || req.GetSocket() != s.socket || w.GetSocket() != r.spec.GetSocket() || !bytes.Equal(w.GetConfig(), r.spec.GetConfig()) {
			leave = append(leave, name)
		}
	}
	if err := s.end(ctx, leave...); err != nil {
		return nil, status.Error(codes.DeadlineExceeded, err.Error())
	}
	if s.informers != nil && req.GetSocket() != s.socket {
		s.endInformers()
	}
	if s.informers == nil {
		if err := s.beginInformers(req.GetSocket()); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
	}
	for _, name := range s.names {
		if spec := wanted[name]; spec != nil && s.running[name] == nil {
			s.begin(spec, req.GetNodeName())
		}
	}
	return &contractv1.ControllerStarted{}, nil
}

func (s *server) Status(context.Context, *contractv1.ControllerStatusRequest) (*contractv1.ControllerStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &contractv1.ControllerStatus{}
	for _, name := range s.names {
		if r := s.running[name]; r != nil {
			r.mu.Lock()
			resp.Controllers = append(resp.Controllers, &contractv1.ControllerState{Name: name, Running: r.up, Message: r.message, Restarts: r.restarts})
			r.mu.Unlock()
		}
	}
	return resp, nil
}

func (s *service) beginInformers(socket string) error {
	reader := ConfigFor(socket, "pintle-plugin")
	client, err := kubernetes.NewForConfig(protobufConfig(reader))
	if err != nil {
		return fmt.Errorf("client for the bundle: %w", err)
	}
	s.socket, s.reader, s.stop = socket, reader, make(chan struct{})
	s.informers = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trimmed))
	return nil
}

// trimmed takes from a cached object its managed fields, a third of a pod, which no
// controller goes by. kube-controller-manager does so too.
func trimmed(object any) (any, error) {
	if of, err := meta.Accessor(object); err == nil && of.GetManagedFields() != nil {
		of.SetManagedFields(nil)
	}
	return object, nil
}

func (s *service) endInformers() {
	if s.informers == nil {
		return
	}
	close(s.stop)
	s.informers.Shutdown()
	closeIdle(s.reader)
	s.informers = nil
}

// begin runs a controller in a goroutine of its own until it is ended.
func (s *service) begin(spec *contractv1.ControllerSpec, nodeName string) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{spec: spec, nodeName: nodeName, cancel: cancel, done: make(chan struct{}), message: "starting"}
	s.running[spec.GetName()] = r
	shared, reader, stop := s.informers, s.reader, s.stop
	log := s.log.With("controller", spec.GetName())
	go func() {
		defer close(r.done)
		backoff := firstBackoff
		for {
			began := time.Now()
			err := r.once(ctx, s.byName[spec.GetName()], r.context(spec.GetConfig(), reader, shared, log), stop)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				err = errors.New("it returned although it was to run on")
			}
			if time.Since(began) > settled {
				backoff = firstBackoff
			}
			log.Error("controller ended and is started again", "error", err, "after", backoff.String())
			r.set(false, err.Error())
			select {
			case <-ctx.Done():
				return
			case <-time.After(backoff):
			}
			backoff = min(2*backoff, lastBackoff)
			r.mu.Lock()
			r.restarts++
			r.mu.Unlock()
		}
	}()
}

// context is what the controller is built with.
func (r *run) context(config []byte, reader *rest.Config, shared informers.SharedInformerFactory, log *slog.Logger) *Context {
	return &Context{
		Name: r.spec.GetName(), NodeName: r.nodeName, Config: config, Logger: log,
		RESTConfig:   ConfigFor(r.spec.GetSocket(), "pintle-controller/"+r.spec.GetName()),
		BundleConfig: rest.CopyConfig(reader), Informers: shared,
	}
}

// try builds the controller with a configuration and lets go of what it built,
// beside the one that runs. Its informers are its own and are never started, so
// that it leaves no handler and no index at those that are shared.
func (r *run) try(c Controller, config []byte, reader *rest.Config, log *slog.Logger) (err error) {
	defer recovered(&err)
	client, err := kubernetes.NewForConfig(protobufConfig(reader))
	if err != nil {
		return fmt.Errorf("client for the bundle: %w", err)
	}
	with := r.context(config, reader, informers.NewSharedInformerFactory(client, 0), log.With("controller", r.spec.GetName()))
	defer closeIdle(with.RESTConfig)
	runner, err := build(c, with)
	if err != nil {
		return err
	}
	// A run that is over before it begins releases what New made: its queues, say.
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := runner.Run(over); err != nil {
		with.Logger.Debug("controller built to try a configuration", "error", err)
	}
	return nil
}

func build(c Controller, with *Context) (_ Runner, err error) {
	if with.Client, err = kubernetes.NewForConfig(protobufConfig(with.RESTConfig)); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return c.New(with)
}

// recovered turns a panic into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// once builds and runs a controller one time; a panic becomes an error.
func (r *run) once(ctx context.Context, c Controller, with *Context, stop <-chan struct{}) (err error) {
	defer closeIdle(with.RESTConfig) // a next run has a transport of its own
	defer recovered(&err)
	runner, err := build(c, with)
	if err != nil {
		return err
	}
	with.Informers.Start(stop)
	r.set(true, "")
	return runner.Run(ctx)
}

func (r *run) set(up bool, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up, r.message = up, message
}

// end cancels controllers together and waits for them.
func (s *service) end(ctx context.Context, names ...string) error {
	for _, name := range names {
		if r := s.running[name]; r != nil {
			r.cancel()
		}
	}
	for _, name := range names {
		r := s.running[name]
		if r == nil {
			continue
		}
		select {
		case <-r.done:
			delete(s.running, name)
		case <-ctx.Done():
			return fmt.Errorf("controller %s did not end in time", name)
		}
	}
	return nil
}
