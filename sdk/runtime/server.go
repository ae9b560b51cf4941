package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/network"
	"pintle.dev/pintle/sdk/schedpolicy"
	"pintle.dev/pintle/sdk/transport"
)

// Serve serves runtimes by name until the kernel asks the process to stop.
func Serve(runtimes map[string]Runtime) {
	// What a runtime starts is others' and inherits its policy.
	if err := schedpolicy.Normal(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := transport.Serve(Service(runtimes)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Service is Serve for a bundle that holds other kinds as well.
func Service(runtimes map[string]Runtime) transport.Service {
	s := &service{runtimes: map[string]*served{}}
	for name, r := range runtimes {
		s.runtimes[name] = &served{runtime: r}
	}
	return s
}

type served struct {
	mu      sync.Mutex // Runtime's methods are called one at a time
	runtime Runtime
	started bool
	config  []byte
}

// service is the bundle's side of the process's life-cycle.
type service struct {
	runtimes map[string]*served
}

// server serves the wire contract over it.
type server struct {
	contractv1.UnimplementedRuntimesServer
	*service
}

var _ transport.Service = (*service)(nil)

func (s *service) RegisterWith(r grpc.ServiceRegistrar) {
	contractv1.RegisterRuntimesServer(r, &server{service: s})
}

func (s *service) Describe() []*contractv1.PluginDescription {
	var list []*contractv1.PluginDescription
	for _, name := range slices.Sorted(maps.Keys(s.runtimes)) {
		list = append(list, &contractv1.PluginDescription{Name: name, Kind: "runtime"})
	}
	return list
}

func (s *service) Configure(name string, config []byte) error {
	if len(config) > 0 && !json.Valid(config) {
		return fmt.Errorf("configuration of %s: it is no JSON", name)
	}
	r, err := s.get(name)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.config = config
	return nil
}

// Health is the process's; the endpoint's is asked by Status.
func (s *service) Health() error { return nil }

// Stop leaves containers alone: the kernel stops runtimes by name before.
func (s *service) Stop(ctx context.Context) error {
	var failures []error
	for name, r := range s.runtimes {
		r.mu.Lock()
		if r.started {
			if err := r.runtime.Stop(ctx, true); err != nil {
				failures = append(failures, fmt.Errorf("runtime %s: %w", name, err))
			}
			r.started = false
		}
		r.mu.Unlock()
	}
	return errors.Join(failures...)
}

func (s *service) get(name string) (*served, error) {
	if r := s.runtimes[name]; r != nil {
		return r, nil
	}
	return nil, status.Error(codes.NotFound, fmt.Sprintf("%v: %s", ErrUnknown, name))
}

func (s *server) Start(ctx context.Context, req *contractv1.RuntimeStart) (*contractv1.RuntimeReady, error) {
	r, err := s.get(req.GetName())
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	config := req.GetConfig()
	if len(config) == 0 {
		config = r.config
	}
	endpoint, err := r.runtime.Start(ctx, Options{
		Name: req.GetName(), Config: config,
		DataDirectory: req.GetDataDirectory(), StateDirectory: req.GetStateDirectory(),
		ArtifactDirectory: req.GetArtifactDirectory(), NodeName: req.GetNodeName(),
		PodCIDR: req.GetPodCidr(), CgroupParent: req.GetCgroupParent(), ClusterCIDRs: req.GetClusterCidrs(),
		Pods:   network.Pods{MTU: int(req.GetPods().GetMtu()), CNIConfigurations: req.GetPods().GetCniConfigurations(), CNIPlugins: req.GetPods().GetCniPlugins()},
		Logger: transport.Logger().With("runtime", req.GetName()),
	})
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	r.started = true
	return &contractv1.RuntimeReady{
		CriSocket: endpoint.Socket, ImageSocket: endpoint.ImageSocket,
		Version: endpoint.Version, Message: endpoint.Message,
	}, nil
}

func (s *server) Status(ctx context.Context, req *contractv1.RuntimeStatusRequest) (*contractv1.RuntimeStatus, error) {
	r, err := s.get(req.GetName())
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started {
		return &contractv1.RuntimeStatus{Message: ErrNotStarted.Error()}, nil
	}
	generation, err := r.runtime.Status(ctx)
	if err != nil {
		return &contractv1.RuntimeStatus{Message: err.Error(), Generation: generation}, nil
	}
	return &contractv1.RuntimeStatus{Ready: true, Generation: generation}, nil
}

func (s *server) Stop(ctx context.Context, req *contractv1.RuntimeStop) (*contractv1.RuntimeStopped, error) {
	r, err := s.get(req.GetName())
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started {
		if err := r.runtime.Stop(ctx, req.GetKeepContainers()); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		r.started = false
	}
	return &contractv1.RuntimeStopped{}, nil
}
