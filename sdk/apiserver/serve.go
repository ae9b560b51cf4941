package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/metrics"
	"pintle.dev/pintle/sdk/transport"
)

// Kind is the kind of such plugins in manifests.
const Kind = "apiserver"

const (
	// headerFor is how long a request's header may take, drainFor requests under way
	// when a server ends; watches are ended at once.
	headerFor, drainFor = 30 * time.Second, 5 * time.Second

	maxHeaderBytes = 1 << 20
)

// Serve serves the API servers until the kernel asks the process to stop. Which of them
// run is the kernel's to say.
func Serve(servers ...Server) {
	if err := transport.Serve(Service(servers...), metrics.Service()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Service is Serve for a bundle that holds other kinds as well (sdk.AddService).
func Service(servers ...Server) transport.Service {
	s := &service{byName: map[string]Server{}, running: map[string]*run{}, configs: map[string][]byte{}, log: transport.Logger()}
	for _, server := range servers {
		s.byName[server.Name] = server
		s.names = append(s.names, server.Name)
	}
	slices.Sort(s.names)
	return s
}

// service is the process's side of the contract.
type service struct {
	contractv1.UnimplementedAPIServersServer

	names  []string
	byName map[string]Server
	log    *slog.Logger

	mu      sync.Mutex
	running map[string]*run
	configs map[string][]byte
}

var _ transport.Service = (*service)(nil)

func (s *service) RegisterWith(r grpc.ServiceRegistrar) { contractv1.RegisterAPIServersServer(r, s) }

func (s *service) Describe() []*contractv1.PluginDescription {
	var list []*contractv1.PluginDescription
	for _, name := range s.names {
		list = append(list, &contractv1.PluginDescription{Name: name, Kind: Kind})
	}
	return list
}

// Configure keeps a server's configuration for its next start. Where it runs it is built
// with it first, and runs on as it was where that fails.
func (s *service) Configure(name string, config []byte) error {
	if len(config) > 0 && !json.Valid(config) {
		return fmt.Errorf("configuration of %s: it is no JSON", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.running[name]; r != nil {
		if _, err := build(s.byName[name], r.spec, config, s.log); err != nil {
			return err
		}
	}
	s.configs[name] = config
	return nil
}

// Health is the process's; a server that does not answer is the kernel's to find out.
func (s *service) Health() error { return nil }

// Stop ends all servers.
func (s *service) Stop(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(s.names...)
	return nil
}

// Start makes exactly the named servers run.
func (s *service) Start(_ context.Context, req *contractv1.APIServerStart) (*contractv1.APIServerStarted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[string]*contractv1.APIServerSpec{}
	for _, spec := range req.GetServers() {
		if _, ok := s.byName[spec.GetName()]; !ok {
			return nil, status.Errorf(codes.NotFound, "no such API server in this bundle: %s (it has %s)", spec.GetName(), strings.Join(s.names, ", "))
		}
		if len(spec.GetConfig()) == 0 {
			spec.Config = s.configs[spec.GetName()]
		}
		wanted[spec.GetName()] = spec
	}
	var leave []string
	for name, r := range s.running {
		if w := wanted[name]; w == nil || !sameSpec(w, r.spec) || r.over() {
			leave = append(leave, name)
		}
	}
	s.end(leave...)
	resp := &contractv1.APIServerStarted{}
	for _, name := range s.names {
		spec := wanted[name]
		if spec == nil {
			continue
		}
		state := &contractv1.APIServerState{Name: name}
		if r := s.running[name]; r != nil {
			state.Socket = r.listener.name
		} else if r, err := begin(s.byName[name], spec, s.log.With("apiserver", name)); err != nil {
			state.Message = err.Error()
		} else {
			s.running[name] = r
			state.Socket = r.listener.name
		}
		resp.Servers = append(resp.Servers, state)
	}
	return resp, nil
}

func sameSpec(a, b *contractv1.APIServerSpec) bool {
	return proto.Equal(a, b)
}

// end ends servers, side by side; mu is held.
func (s *service) end(names ...string) {
	var group sync.WaitGroup
	for _, name := range names {
		if r := s.running[name]; r != nil {
			delete(s.running, name)
			group.Go(r.stop)
		}
	}
	group.Wait()
}

// build makes a server, which listens to nothing yet.
func build(server Server, spec *contractv1.APIServerSpec, config []byte, log *slog.Logger) (made Instance, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	c := &Context{Name: spec.GetName(), Config: config, Logger: log, RESTConfig: controller.ConfigFor(spec.GetSocket(), "pintle-apiserver/"+spec.GetName())}
	for _, gv := range spec.GetGroupVersions() {
		c.GroupVersions = append(c.GroupVersions, schema.GroupVersion{Group: gv.GetGroup(), Version: gv.GetVersion()})
	}
	if c.Client, err = kubernetes.NewForConfig(c.RESTConfig); err != nil {
		return Instance{}, fmt.Errorf("client: %w", err)
	}
	if made, err = server.New(c); err == nil && made.Handler == nil {
		err = errors.New("it was built without a handler")
	}
	return made, err
}

// run is one server that runs.
type run struct {
	spec     *contractv1.APIServerSpec
	listener *listener
	server   *http.Server
	cancel   context.CancelFunc
	group    sync.WaitGroup
	ended    chan struct{} // Run has returned before it was asked to
}

func begin(server Server, spec *contractv1.APIServerSpec, log *slog.Logger) (*run, error) {
	made, err := build(server, spec, spec.GetConfig(), log)
	if err != nil {
		return nil, fmt.Errorf("API server %s: %w", spec.GetName(), err)
	}
	ln, err := listen(spec.GetName(), spec.GetKernelUid(), log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{spec: spec, listener: ln, cancel: cancel, ended: make(chan struct{})}
	r.server = &http.Server{
		Handler: recovered(identified(made.Handler), log), ReadHeaderTimeout: headerFor, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	if made.Run != nil {
		r.group.Go(func() {
			err := guarded(ctx, made.Run)
			if ctx.Err() == nil {
				log.Error("API server ended and is started again", "error", err)
				close(r.ended)
				_ = r.server.Close()
			}
		})
	}
	r.group.Go(func() {
		if err := r.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("API server listens no more", "error", err)
		}
	})
	return r, nil
}

// over reports whether a server ended by itself.
func (r *run) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// stop ends a server, and what it answers still.
func (r *run) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), drainFor)
	defer cancel()
	r.cancel()
	if err := r.server.Shutdown(ctx); err != nil {
		_ = r.server.Close()
	}
	r.group.Wait()
}

func guarded(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err := run(ctx); err != nil {
		return err
	}
	return errors.New("it returned although it was to run on")
}

// recovered answers for a handler that panics.
func recovered(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p) // net/http's own way to cut a connection
			default:
				log.Error("a handler panics", "path", req.URL.Path, "panic", p, "stack", string(debug.Stack()))
				http.Error(w, "the server failed", http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, req)
	})
}
