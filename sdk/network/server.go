package network

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
	"pintle.dev/pintle/sdk/transport"
)

// Serve serves networks by name until the kernel asks the process to stop.
func Serve(networks map[string]Network) {
	if err := transport.Serve(ServiceOf(networks)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ServiceOf is Serve for a bundle that holds other kinds as well.
func ServiceOf(networks map[string]Network) transport.Service {
	s := &service{networks: map[string]*served{}}
	for name, n := range networks {
		s.networks[name] = &served{network: n}
	}
	return s
}

type served struct {
	mu      sync.Mutex // Start, Apply and Stop are called one at a time
	network Network
	started bool
	halted  bool // a stop of it failed, and is not finished
	pods    Pods // what its start answered
	config  []byte
}

// service is the bundle's side of the process's life cycle.
type service struct {
	networks map[string]*served
}

// server serves the wire contract over it.
type server struct {
	contractv1.UnimplementedNetworksServer
	*service
}

var _ transport.Service = (*service)(nil)

func (s *service) RegisterWith(r grpc.ServiceRegistrar) {
	contractv1.RegisterNetworksServer(r, &server{service: s})
}

func (s *service) Describe() []*contractv1.PluginDescription {
	var list []*contractv1.PluginDescription
	for _, name := range slices.Sorted(maps.Keys(s.networks)) {
		list = append(list, &contractv1.PluginDescription{Name: name, Kind: "network"})
	}
	return list
}

func (s *service) Configure(name string, config []byte) error {
	if len(config) > 0 && !json.Valid(config) {
		return fmt.Errorf("configuration of %s: it is no JSON", name)
	}
	n, err := s.get(name)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.config = config
	return nil
}

// Health is the process's; the network's is asked by Status.
func (s *service) Health() error { return nil }

// Stop leaves the network as it is: the kernel stops networks by name before.
func (s *service) Stop(ctx context.Context) error {
	var failures []error
	for name, n := range s.networks {
		n.mu.Lock()
		if n.started {
			if err := n.network.Stop(ctx, false); err != nil {
				failures = append(failures, fmt.Errorf("network %s: %w", name, err))
			}
			n.started = false
		}
		n.mu.Unlock()
	}
	return errors.Join(failures...)
}

func (s *service) get(name string) (*served, error) {
	if n := s.networks[name]; n != nil {
		return n, nil
	}
	return nil, status.Error(codes.NotFound, fmt.Sprintf("%v: %s", ErrUnknown, name))
}

// configured prefers the configuration of the call over that of Configure.
func (n *served) configured(config []byte) []byte {
	if len(config) == 0 {
		return n.config
	}
	return config
}

func (s *server) Probe(ctx context.Context, req *contractv1.NetworkProbe) (*contractv1.NetworkProbed, error) {
	n, err := s.get(req.GetName())
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.network.Probe(ctx, n.configured(req.GetConfig())); err != nil {
		return &contractv1.NetworkProbed{Reason: err.Error()}, nil
	}
	return &contractv1.NetworkProbed{Usable: true}, nil
}

func (s *server) Start(ctx context.Context, req *contractv1.NetworkStart) (*contractv1.NetworkStarted, error) {
	n, err := s.get(req.GetName())
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.started && n.halted {
		if err := n.network.Stop(ctx, false); err != nil {
			return nil, status.Error(codes.Unavailable, "finish its stop before it starts: "+err.Error())
		}
		n.started, n.halted = false, false
	}
	message := "was started before"
	if !n.started {
		// The call's context ends with the call; the network goes on.
		pods, err := n.network.Start(context.WithoutCancel(ctx), Options{
			Name: req.GetName(), Config: n.configured(req.GetConfig()), NodeName: req.GetNodeName(),
			NodeIPs: req.GetNodeIps(), PodCIDRs: req.GetPodCidrs(), ClusterCIDRs: req.GetClusterCidrs(), ServiceCIDRs: req.GetServiceCidrs(),
			StateDirectory: req.GetStateDirectory(), APISocket: req.GetApiSocket(), Logger: transport.Logger().With("network", req.GetName()),
		})
		if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		n.started, n.pods, message = true, pods, ""
	}
	return &contractv1.NetworkStarted{Message: message, Pods: &contractv1.PodNetwork{
		Mtu: int32(n.pods.MTU), CniConfigurations: n.pods.CNIConfigurations, CniPlugins: n.pods.CNIPlugins,
	}, PublicKey: n.pods.PublicKey}, nil
}

func (s *server) Apply(ctx context.Context, req *contractv1.NetworkApply) (*contractv1.NetworkApplied, error) {
	n, err := s.get(req.GetName())
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.started {
		return nil, status.Error(codes.FailedPrecondition, ErrNotStarted.Error())
	}
	if err := n.network.Apply(ctx, req.GetDiff()); err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &contractv1.NetworkApplied{Generation: req.GetDiff().GetGeneration()}, nil
}

func (s *server) Status(_ context.Context, req *contractv1.NetworkStatusRequest) (*contractv1.NetworkStatus, error) {
	n, err := s.get(req.GetName())
	if err != nil {
		return nil, err
	}
	st := n.network.Status()
	return &contractv1.NetworkStatus{Ready: st.Ready, Message: st.Message, Generation: st.Generation, Refused: st.Refused}, nil
}

func (s *server) Stop(ctx context.Context, req *contractv1.NetworkStop) (*contractv1.NetworkStopped, error) {
	n, err := s.get(req.GetName())
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.started || req.GetCleanup() {
		if err := n.network.Stop(ctx, req.GetCleanup()); err != nil {
			n.halted = true
			return nil, status.Error(codes.Internal, err.Error())
		}
		n.started, n.halted = false, false
	}
	return &contractv1.NetworkStopped{}, nil
}
