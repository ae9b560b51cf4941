package plugin

import (
	"context"

	"pintle.dev/pintle/kernel/plugin/engine"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/process"
	"pintle.dev/pintle/kernel/plugin/wasm"
	"pintle.dev/pintle/sdk"
)

const (
	// workerOwn is the memory of a worker beyond that of instances: machine code, its
	// own heap.
	workerOwn = 256 << 20
	// workerTasks are its threads.
	workerTasks = 64
)

// workerLimits are what the worker of a module gets: room for all instances that
// there may be, and one that is made to take another's place.
func workerLimits(m *manifest.Manifest, l process.Ceilings) process.Ceilings {
	instances := int64(2)
	for i := range m.Plugins {
		switch m.Plugins[i].Kind {
		case sdk.KindController:
			instances++
		case sdk.KindAdmission:
			instances += wasm.MaxReviewers
		}
	}
	return process.Ceilings{Memory: instances*engine.Ceiling(l.Memory) + workerOwn, PIDs: workerTasks}
}

// loadModule makes the unit's module ready for instances, where it shall run.
func (u *unit) loadModule(ctx context.Context) (*wasm.Module, error) {
	o := wasm.Options{Bundle: u.bundle, Artifact: u.artifact, Digest: u.digest, Cache: u.modules, Memory: u.limits.Memory, Folders: u.files, Start: u.start}
	if !u.worker {
		return wasm.Open(ctx, o)
	}
	return wasm.OpenApart(ctx, o, func(ctx context.Context) (wasm.Worker, error) {
		w, err := process.StartWorker(ctx, u.bundle.Manifest.Name, process.Options{
			RunDirectory: u.run, Call: u.call, Start: u.start, Log: u.log, Words: u.words, Budget: u.budget, Constraints: u.confined,
		}, u.files)
		if err != nil {
			return nil, err
		}
		return w, nil
	})
}
