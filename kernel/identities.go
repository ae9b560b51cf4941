package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/user"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/auth/rbac"
	"pintle.dev/pintle/kernel/api/flowcontrol"
	"pintle.dev/pintle/kernel/plugin"
)

// identities opens the API sockets that stand for plugins, one each.
type identities struct {
	// directory holds the sockets of plugins that run as the kernel's own user.
	directory string
	ready     func() <-chan struct{}
	serve     func(ctx context.Context, ln net.Listener, u user.Info, s *socket) error
	log       *slog.Logger

	ctx     context.Context //nolint:containedctx // ends the sockets, which outlive the call that opens them
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	sockets map[string]*socket // by path
	// term is the time for which controllers may write; nil: always.
	term context.Context //nolint:containedctx // ends what passes through the sockets
}

// socket is one that is served.
type socket struct {
	leading bool // it is of controllers
	name    string
	gate    *api.Gate
	access  atomic.Pointer[plugin.Access] // of the last time
	halt    context.CancelFunc
	halted  bool
	ended   chan struct{}
}

// newIdentities opens none; the API server is there before the first is asked for.
func newIdentities(k *Kernel) *identities {
	ctx, cancel := context.WithCancel(context.Background())
	return &identities{
		directory: filepath.Join(k.dirs.run, "api"), log: k.log, ctx: ctx, cancel: cancel, sockets: map[string]*socket{},
		ready: func() <-chan struct{} { return k.api.Ready() },
		serve: func(ctx context.Context, ln net.Listener, u user.Info, s *socket) error {
			return k.api.ServeUnix(ctx, ln, u, s.gate)
		},
	}
}

// close ends the sockets; the plugins that use them have stopped before.
func (i *identities) close(context.Context) error {
	i.cancel()
	i.wg.Wait()
	return nil
}

// while lets controllers write until ctx ends, and not after. Nobody has to be told
// then: what waits for anything else does not hold it up.
func (i *identities) while(ctx context.Context) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.term = ctx
	for _, s := range i.sockets {
		if s.leading {
			s.gate.While(ctx)
		}
	}
}

// open returns the socket of a plugin's identity and serves it until it is
// released or the kernel stops.
func (i *identities) open(ctx context.Context, name string, a plugin.Access) (string, error) {
	select {
	case <-i.ready():
	case <-ctx.Done():
		return "", ctx.Err()
	}
	dir := a.Directory
	if dir == "" {
		dir = i.directory
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("api socket of plugin %s: %w", name, err)
		}
	}
	// Names may be long, and paths of sockets may not.
	path := filepath.Join(dir, shortHash(name))
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.sockets[path] != nil && i.sockets[path].halted {
		// What ends takes the path away with it.
		ended := i.sockets[path].ended
		i.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		i.mu.Lock()
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
	if s := i.sockets[path]; s != nil {
		s.gate.Set(a.CallsPerSecond, a.Denied)
		s.access.Store(&a)
		return path, nil
	}
	s := &socket{name: name, leading: a.Leading, gate: &api.Gate{UID: a.UID, GID: a.GID}, ended: make(chan struct{})}
	if s.leading && i.term != nil {
		s.gate.While(i.term)
	}
	s.gate.Set(a.CallsPerSecond, a.Denied)
	s.access.Store(&a)
	ln, err := api.ListenUnix(ctx, path, s.gate)
	if err != nil {
		return "", fmt.Errorf("plugin %s: %w", name, err)
	}
	serving, halt := context.WithCancel(i.ctx)
	s.halt = halt
	i.sockets[path] = s
	u := &user.DefaultInfo{Name: rbac.PluginUser(name), Groups: []string{flowcontrol.PluginsGroup}}
	i.wg.Go(func() {
		defer halt()
		if err := i.serve(serving, ln, u, s); err != nil && serving.Err() == nil {
			i.log.Error("api socket of a plugin ended", "plugin", name, "error", err)
		}
		i.mu.Lock()
		delete(i.sockets, path)
		i.mu.Unlock()
		close(s.ended)
	})
	return path, nil
}

// release ends the sockets of a plugin that is no more. It waits for nothing.
func (i *identities) release(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, s := range i.sockets {
		if s.name == name {
			s.halted = true
			s.halt()
		}
	}
}
