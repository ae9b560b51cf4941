package wasm

import (
	"context"
	"log/slog"

	"github.com/tetratelabs/wazero/api"

	"pintle.dev/pintle/kernel/plugin/engine"
	"pintle.dev/pintle/kernel/plugin/output"
	"pintle.dev/pintle/sdk/abi"
)

// instance is one of a module, in this process or in a worker.
type instance interface {
	// memory is nil where the module exports none.
	memory() engine.Memory
	linear() *engine.LinearMemory
	// function is nil where the module exports none of that name.
	function(name string) *export
	close(ctx context.Context) error
}

// export is a function that a module exports.
type export struct {
	name, signature string
	code            interface {
		// CallWithStack calls with what lies on the stack; the result replaces it.
		CallWithStack(ctx context.Context, stack []uint64) error
	}
}

// begin makes an instance, whose start functions have run.
func (m *Module) begin(g *Guest, log *slog.Logger) (instance, error) {
	if m.worker != nil {
		return m.beginApart(g, log)
	}
	local := &localInstance{}
	var err error
	local.module, err = m.engine.Instantiate(g, &local.space, &output.LineWriter{Log: log, Late: g.Late})
	if err != nil {
		local.space.Unmap()
		return nil, err
	}
	return local, nil
}

// localInstance is one in this process.
type localInstance struct {
	module api.Module
	space  engine.LinearMemory
}

func (l *localInstance) memory() engine.Memory {
	if l.module.ExportedMemory(abi.Memory) == nil {
		return nil
	}
	return l.module.Memory()
}

func (l *localInstance) linear() *engine.LinearMemory { return &l.space }

func (l *localInstance) function(name string) *export {
	f := l.module.ExportedFunction(name)
	if f == nil {
		return nil
	}
	return &export{name, engine.Signature(f.Definition()), f}
}

func (l *localInstance) close(ctx context.Context) error {
	err := l.module.Close(ctx)
	l.space.Unmap()
	return err
}
