package artifact

import (
	"bytes"
	"context"
	"fmt"

	"github.com/tetratelabs/wazero/api"

	"pintle.dev/pintle/sdk/reconciler/protocol"
)

// hostModule is where modules with controllers import from (ABI.md).
const hostModule = "pintle_host"

// noAPI is what every host function answers where Options.Host is nil.
const noAPI = `{"status":{"code":503,"reason":"ServiceUnavailable","message":"there is no cluster behind this module"}}`

// exportHost gives modules the host functions, which Options.Host answers. What is
// logged goes to the output.
func (m *Module) exportHost(ctx context.Context) error {
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	b := m.runtime.NewHostModuleBuilder(hostModule)
	for _, name := range protocol.Operations() {
		b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, mod api.Module, stack []uint64) {
			request, ok := mod.Memory().Read(uint32(stack[0]), uint32(stack[1]))
			if !ok {
				panic(fmt.Errorf("%s: %d bytes at %#x are not in the module's memory", name, uint32(stack[1]), uint32(stack[0])))
			}
			answer := []byte(noAPI)
			if m.options.Host != nil {
				answer = m.options.Host(name, bytes.Clone(request))
			}
			m.answers.Store(mod, answer)
			stack[0] = uint64(len(answer))
		}), []api.ValueType{i32, i32}, []api.ValueType{i32}).Export(name)
	}
	b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, mod api.Module, stack []uint64) {
		kept, _ := m.answers.LoadAndDelete(mod)
		answer, _ := kept.([]byte)
		if size := uint32(stack[1]); int(size) > len(answer) {
			panic(fmt.Errorf("answer: %d bytes asked for, the last answer has %d", size, len(answer)))
		}
		if !mod.Memory().Write(uint32(stack[0]), answer[:uint32(stack[1])]) {
			panic(fmt.Errorf("answer: %#x is not in the module's memory", uint32(stack[0])))
		}
	}), []api.ValueType{i32, i32}, nil).Export(protocol.FunctionAnswer)
	b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, mod api.Module, stack []uint64) {
		if record, ok := mod.Memory().Read(uint32(stack[0]), uint32(stack[1])); ok {
			fmt.Fprintf(m.options.Output, "%s\n", record)
		}
	}), []api.ValueType{i32, i32}, nil).Export(protocol.FunctionLog)
	b = b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) {
		stack[0] = 0 // 1970: the same in every test
	}), nil, []api.ValueType{i64}).Export(protocol.FunctionNow)
	_, err := b.Instantiate(ctx)
	return err
}
