package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"pintle.dev/pintle/kernel/plugin/confinement"
	"pintle.dev/pintle/kernel/plugin/output"
	"pintle.dev/pintle/kernel/plugin/wasmworker"
)

// Worker is the process in which a module runs.
type Worker struct {
	*wasmworker.Worker
	runner  *processRunner
	exe     *executable
	dir     string // in which its root was made
	size    int64  // what an instance may have of memory
	process int
	output  sync.WaitGroup
}

// StartWorker starts a process for the module of a bundle, behind the walls of all
// plugins' processes. It sees the folders that the module may read.
func StartWorker(ctx context.Context, name string, o Options, folders []string) (_ *Worker, err error) {
	path, err := wasmworker.Executable()
	if err != nil {
		return nil, fmt.Errorf("plugin bundle %s: program of its worker: %w", name, err)
	}
	o.Asked = true
	w := &Worker{
		exe:    &executable{path: path, within: filepath.Base(path), sees: folders},
		runner: &processRunner{name: path, exited: make(chan struct{})},
	}
	begun := false
	defer func() {
		if err != nil && !begun {
			err = errors.Join(err, w.cleared())
		}
	}()
	base := o.RunDirectory
	if o.User > 0 {
		if base, err = o.Folder(name); err != nil {
			return nil, err
		}
		if !passable(path) {
			if w.exe.file, err = os.Open(path); err != nil {
				return nil, fmt.Errorf("plugin bundle %s: program of its worker: %w", name, err)
			}
		}
	} else if base != "" {
		if err := os.MkdirAll(base, 0o700); err != nil {
			return nil, fmt.Errorf("plugin bundle %s: %w", name, err)
		}
	}
	if w.dir, err = os.MkdirTemp(base, "worker-"); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: %w", name, err)
	}
	if base == "" {
		base = w.dir
	}
	if err := w.runner.prepare(name, w.exe, &o, []string{wasmworker.Variable + "=1"}, base, w.dir); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: worker: %w", name, err)
	}
	if err := w.runner.Start(ctx); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: start its worker %s: %w", name, path, err)
	}
	begun = true
	w.process = w.runner.pid()
	w.output.Go(func() { _, _ = io.Copy(&output.LineWriter{Log: o.Words}, w.runner.Stdout()) })
	w.output.Go(func() { _, _ = io.Copy(io.Discard, w.runner.Stderr()) })
	control, ok := w.runner.questions.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("plugin bundle %s: worker: %T is no socket", name, w.runner.questions)
	}
	w.Worker = wasmworker.Connect(control, func() { _ = w.runner.Kill(context.Background()) })
	return w, nil
}

// Lost is why the worker is of no use any more, or nil.
func (w *Worker) Lost() error {
	select {
	case <-w.runner.exited:
	default:
		return w.Worker.Lost()
	}
	switch err := w.Worker.Lost(); {
	case w.runner.outOfMemory():
		return fmt.Errorf("its worker, process %d, was ended: it used more memory than it may have", w.process)
	case err != nil:
		return err
	}
	return fmt.Errorf("its worker, process %d, ended", w.process)
}

// PID is that of the process.
func (w *Worker) PID() int { return w.process }

// Lacks are the walls that the process runs without.
func (w *Worker) Lacks() []confinement.Wall { return w.runner.without }

// Close ends the process and gives back what it had.
func (w *Worker) Close() error {
	err := w.Worker.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	<-w.runner.exited
	w.output.Wait()
	return errors.Join(err, w.cleared())
}

func (w *Worker) cleared() error {
	err := w.runner.close()
	w.exe.close()
	if w.dir != "" {
		err = errors.Join(err, os.RemoveAll(w.dir))
	}
	return err
}
