package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/plugin/engine"
	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk/reconciler/protocol"
)

var (
	// alwaysGranted give a module nothing that it could not have through WASI.
	alwaysGranted = []string{engine.HostCheck, protocol.FunctionLog, protocol.FunctionNow, protocol.FunctionAnswer}
)

// Granted tells whether a bundle's module may import a function of the host.
func Granted(m *manifest.Manifest) func(function string) bool {
	return func(function string) bool {
		return slices.Contains(alwaysGranted, function) || slices.Contains(m.HostFunctions, function)
	}
}

// Operator carries out host functions of one controller.
type Operator func(ctx context.Context, function string, request []byte) []byte

// OperateWait is how long a call above the rate is held up before it is refused:
// longer than one a second takes, as a controller calls one after the other.
const OperateWait = 2 * time.Second

func AnswerOf(code int, reason metav1.StatusReason, message string) []byte {
	data, err := json.Marshal(protocol.Answer{Status: &protocol.Status{Code: code, Reason: string(reason), Message: message}})
	if err != nil {
		panic(err) // a struct of words and a number
	}
	return data
}

// Operated implements engine.Host: it carries out a host function and keeps its
// answer until the module fetches it.
func (g *caller) Operated(m engine.Memory, function string, pointer, size uint32) uint32 {
	if g.operate == nil {
		panic(fmt.Errorf("host function %s was called outside of a reconciliation", function))
	}
	if !g.module.granted(function) {
		panic(fmt.Errorf("host function %s was not granted", function))
	}
	view, ok := m.Read(pointer, size)
	if !ok {
		panic(fmt.Errorf("host function %s: %d bytes at %#x are not in its memory", function, size, pointer))
	}
	ctx, cancel := context.WithDeadline(g.operating, g.due())
	defer cancel()
	// What operate keeps must not change under it.
	g.answer = g.operate(ctx, function, bytes.Clone(view))
	g.Late()
	return uint32(len(g.answer))
}

// HandOver implements engine.Host: it copies the last answer into the module's memory.
func (g *caller) HandOver(m engine.Memory, pointer, size uint32) {
	if g.operate == nil {
		panic(errors.New("host function answer was called outside of a reconciliation"))
	}
	if int(size) > len(g.answer) {
		panic(fmt.Errorf("host function answer: %d bytes asked for, the last answer has %d", size, len(g.answer)))
	}
	if !m.Write(pointer, g.answer[:size]) {
		panic(fmt.Errorf("host function answer: %d bytes at %#x are not in its memory", size, pointer))
	}
	g.answer = nil
}

// reconcile asks controller i about a key; operate carries out what it asks of
// the host meanwhile. It returns after how long it wants to be asked again.
func (g *Guest) reconcile(ctx context.Context, i int, key []byte, timeout time.Duration, operate func(context.Context, string, []byte) []byte) (time.Duration, error) {
	if g.reconcileFn == nil {
		return 0, fmt.Errorf("plugin bundle %s: %w: module exports no pintle_reconcile(i32, i32, i32) i64 (see sdk/ABI.md)", g.name, guest.ErrPermanent)
	}
	if err := g.place(i, key); err != nil {
		return 0, err
	}
	// From here: host functions are for the reconciliation alone.
	g.operating, g.operate = ctx, operate
	defer func() { g.operating, g.operate, g.answer = nil, nil, nil }()
	if err := g.invoke(g.reconcileFn, timeout); err != nil {
		return 0, err
	}
	after := int64(g.stack[0])
	if after < 0 {
		return 0, g.answered()
	}
	return min(time.Duration(after), maxRequeue) * time.Millisecond, nil
}

// maxRequeue bounds, in milliseconds, how far ahead a module may ask for its next call.
const maxRequeue = time.Duration(30 * 24 * 3600 * 1000)
