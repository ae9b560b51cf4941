package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/sdk/runtime"
)

// version is what the runtime calls itself over CRI.
const version = "0.1.0"

// workers are the goroutines that calls are served on; those beyond get one each.
const workers = 8

// lifeCycle implements runtime.Runtime: it serves CRI on a socket of its own.
type lifeCycle struct {
	mu     sync.Mutex
	server *grpc.Server
	socket string
	world  *world
	wg     sync.WaitGroup
}

var _ runtime.Runtime = (*lifeCycle)(nil)

// config is the plugin's configuration: there is nothing to set.
type config struct{}

func (l *lifeCycle) Start(_ context.Context, o runtime.Options) (runtime.Endpoint, error) {
	if len(o.Config) > 0 {
		dec := json.NewDecoder(bytes.NewReader(o.Config))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&config{}); err != nil {
			return runtime.Endpoint{}, fmt.Errorf("read configuration of runtime hollow: %w", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server == nil {
		socket := filepath.Join(o.StateDirectory, "hollow.sock")
		if err := os.MkdirAll(o.StateDirectory, 0o700); err != nil {
			return runtime.Endpoint{}, fmt.Errorf("start runtime hollow: %w", err)
		}
		if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return runtime.Endpoint{}, fmt.Errorf("start runtime hollow: %w", err)
		}
		listener, err := net.Listen("unix", socket)
		if err != nil {
			return runtime.Endpoint{}, fmt.Errorf("start runtime hollow: %w", err)
		}
		l.world = newWorld()
		// A call is short, and a goroutine of its own for each grows its stack anew.
		l.server, l.socket = grpc.NewServer(grpc.NumStreamWorkers(workers)), socket
		runtimev1.RegisterRuntimeServiceServer(l.server, &runtimeServer{world: l.world})
		runtimev1.RegisterImageServiceServer(l.server, &imageServer{world: l.world})
		server := l.server
		l.wg.Go(func() { _ = server.Serve(listener) })
	}
	return runtime.Endpoint{Socket: l.socket, Version: "hollow " + version, Message: "simulated pods: no container runs"}, nil
}

func (l *lifeCycle) Status(context.Context) (uint64, error) { return 1, nil }

func (l *lifeCycle) Stop(_ context.Context, keepContainers bool) error {
	if keepContainers {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server == nil {
		return nil
	}
	l.world.close()
	l.server.Stop()
	l.wg.Wait()
	l.server = nil
	return nil
}
