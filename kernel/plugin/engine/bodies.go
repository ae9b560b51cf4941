package engine

import (
	"reflect"

	"github.com/tetratelabs/wazero"
)

// letGoOfBodies takes the instructions and locals of its functions from a compiled module,
// and returns how many bytes they had. wazero keeps them and reads them while it compiles
// alone: what runs is machine code. It has no function that lets go of them, so they are
// found by their names, and stay where a version of it has other ones (a test tells).
func letGoOfBodies(c wazero.CompiledModule) (dropped int) {
	outer := reflect.ValueOf(c)
	if outer.Kind() != reflect.Pointer || outer.Elem().Kind() != reflect.Struct {
		return 0
	}
	module := outer.Elem().FieldByName("module")
	if module.Kind() != reflect.Pointer || module.IsNil() || module.Type().Elem().Kind() != reflect.Struct {
		return 0
	}
	// Of a field that is not exported nothing can be set; this is the same memory.
	functions := reflect.NewAt(module.Type().Elem(), module.UnsafePointer()).Elem().FieldByName("CodeSection")
	if functions.Kind() != reflect.Slice || functions.Type().Elem().Kind() != reflect.Struct {
		return 0
	}
	for i := range functions.Len() {
		for _, name := range []string{"Body", "LocalTypes"} {
			if f := functions.Index(i).FieldByName(name); f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Uint8 && f.CanSet() {
				dropped += f.Cap()
				f.SetZero()
			}
		}
	}
	return dropped
}
