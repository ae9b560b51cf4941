//go:build !wasip1

package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"pintle.dev/pintle/sdk/contract"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/footprint"
)

// Name is the one plugin that a process serves in go-plugin's terms.
const Name = "pintle"

// MaxMessageBytes bounds one gRPC message: a full replica of a large cluster.
const MaxMessageBytes = 256 << 20

// Handshake tells a plugin binary that it was started by the kernel. The
// cookie is no secret: it only keeps a curious user from running a plugin by
// hand. The version is that of the handshake; the contract's is agreed upon by
// Describe.
var Handshake = goplugin.HandshakeConfig{
	ProtocolVersion:  1,
	MagicCookieKey:   "PINTLE_PLUGIN",
	MagicCookieValue: "kernel.pintle.dev/v1",
}

// Service is one kind's share of a plugin process.
type Service interface {
	// RegisterWith registers the kind's gRPC service.
	RegisterWith(grpc.ServiceRegistrar)
	// Describe names what the process provides of this kind.
	Describe() []*contractv1.PluginDescription
	// Configure hands one of the described plugins its configuration (JSON).
	Configure(name string, config []byte) error
	// Health says why the process is not well; nil is well.
	Health() error
	// Stop ends everything; it is called once, and ctx ends when the kernel's
	// patience does.
	Stop(ctx context.Context) error
}

// Needy is a Service whose plugins need more of the contract than their kinds do.
type Needy interface {
	// Needs is the oldest version of the contract that has what they need.
	Needs() uint32
}

// Instancer is a Service some of whose plugins may have several instances, each
// with a configuration of its own. It describes those with instances set.
type Instancer interface {
	// ConfigureInstance configures an instance of a plugin, and makes it first if
	// there is none of that name.
	ConfigureInstance(plugin, instance string, config []byte) error
}

// Plugin is both sides' go-plugin entry. The kernel passes a zero one and
// dispenses a *grpc.ClientConn.
type Plugin struct {
	goplugin.NetRPCUnsupportedPlugin
	services  []Service
	questions *os.File // nil: the kernel asks by gRPC alone
}

var _ goplugin.GRPCPlugin = (*Plugin)(nil)

// GRPCServer registers Lifecycle and every kind's service.
func (p *Plugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	l := &lifecycle{services: p.services}
	contractv1.RegisterLifecycleServer(s, l)
	a := &answerer{ServiceRegistrar: s}
	for _, service := range p.services {
		service.RegisterWith(a)
	}
	if p.questions != nil {
		l.questions = QuestionsVersion
		go func() { // ends with the process, or when the kernel closes its end
			if err := a.serve(p.questions); err != nil {
				slog.Error("the kernel cannot ask at the socket for questions", "error", err)
			}
		}()
	}
	return nil
}

// GRPCClient hands the connection to the kernel.
func (p *Plugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// Serve serves the services until the kernel asks the process to stop. The
// error of a process that the kernel did not start says what to do.
func Serve(services ...Service) error {
	if os.Getenv(Handshake.MagicCookieKey) != Handshake.MagicCookieValue {
		return errors.New("this is a plugin of the Pintle kernel and is not run by hand: put it into a bundle beside its manifest.yaml and name the bundle in the kernel's configuration")
	}
	// The kernel stops plugins over the wire, in order; a terminal's Ctrl-C
	// reaches the whole session and must not overtake it.
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	logDefault()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go footprint.Keep(ctx, footprint.Options{}) // ends with the process
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: Handshake,
		Plugins:         goplugin.PluginSet{Name: &Plugin{services: services, questions: inherited()}},
		Logger:          hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr, JSONFormat: true}),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(MaxMessageBytes), grpc.MaxSendMsgSize(MaxMessageBytes))...)
		},
	})
	return nil
}

// lifecycle serves what every plugin process answers.
type lifecycle struct {
	contractv1.UnimplementedLifecycleServer

	services  []Service
	questions uint32 // the version of frames that are answered
	stop      sync.Once
	stopped   error
}

func (l *lifecycle) Describe(_ context.Context, req *contractv1.DescribeRequest) (*contractv1.Description, error) {
	d := &contractv1.Description{Classes: true, Questions: l.questions}
	needs := uint32(contract.One)
	for _, s := range l.services {
		for _, p := range s.Describe() {
			d.Plugins = append(d.Plugins, p)
			needs = max(needs, contract.Of(p.GetKind()))
		}
	}
	for _, s := range l.services {
		if n, ok := s.(Needy); ok {
			needs = max(needs, n.Needs())
		}
	}
	d.Contract = contract.Choose(needs, req.GetMinContract(), req.GetMaxContract())
	return d, nil
}

func (l *lifecycle) Configure(_ context.Context, req *contractv1.ConfigureRequest) (*contractv1.ConfigureResponse, error) {
	for _, s := range l.services {
		for _, d := range s.Describe() {
			if d.GetName() != req.GetPlugin() {
				continue
			}
			configure := s.Configure
			if instance := req.GetInstance(); instance != "" {
				maker, ok := s.(Instancer)
				if !ok || !d.GetInstances() {
					return nil, status.Errorf(codes.InvalidArgument, "plugin %q has one instance", req.GetPlugin())
				}
				configure = func(name string, config []byte) error { return maker.ConfigureInstance(name, instance, config) }
			}
			if err := configure(req.GetPlugin(), req.GetConfig()); err != nil {
				return nil, status.Error(codes.InvalidArgument, err.Error())
			}
			return &contractv1.ConfigureResponse{}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "this bundle has no plugin %q", req.GetPlugin())
}

func (l *lifecycle) Health(context.Context, *contractv1.HealthRequest) (*contractv1.HealthResponse, error) {
	for _, s := range l.services {
		if err := s.Health(); err != nil {
			return &contractv1.HealthResponse{Message: err.Error()}, nil
		}
	}
	return &contractv1.HealthResponse{Healthy: true}, nil
}

func (l *lifecycle) Stop(ctx context.Context, req *contractv1.StopRequest) (*contractv1.StopResponse, error) {
	l.stop.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(max(req.GetGraceMilliseconds(), 1))*time.Millisecond)
		defer cancel()
		var failures []error
		for i := len(l.services) - 1; i >= 0; i-- {
			if err := l.services[i].Stop(ctx); err != nil {
				failures = append(failures, err)
			}
		}
		l.stopped = errors.Join(failures...)
	})
	if l.stopped != nil {
		return nil, status.Error(codes.Aborted, fmt.Sprintf("stop: %v", l.stopped))
	}
	return &contractv1.StopResponse{}, nil
}
