package plugin

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
	"pintle.dev/pintle/sdk/reconciler/protocol"
)

// A controller of a module calls no more often than it may, an instance or many,
// and nothing that the operator withholds.
func TestHostFunctionsAreBounded(t *testing.T) {
	u := &unit{
		bundle: &Bundle{Manifest: &Manifest{Name: "b", Plugins: []Entry{{Name: "c"}}}}, log: slog.New(slog.DiscardHandler), budget: newLogBudget(),
		limits: ceilings{calls: 2}, config: BundleConfig{HostFunctions: []string{protocol.FunctionEvent}},
	}
	var carried []string
	bounds := u.bounded("c")
	call := func(function string) int {
		operate := bounds(func(_ context.Context, function string, _ []byte) []byte {
			carried = append(carried, function)
			return []byte("{}")
		})
		// A call above the rate has no time to wait for its turn.
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var a protocol.Answer
		if err := json.Unmarshal(operate(ctx, function, nil), &a); err != nil {
			t.Fatal(err)
		}
		if a.Status == nil {
			return http.StatusOK
		}
		return a.Status.Code
	}
	for i, want := range []struct {
		function string
		code     int
	}{
		{protocol.FunctionEvent, 200}, {protocol.FunctionDelete, 403}, {protocol.FunctionEvent, 429}, {protocol.FunctionDelete, 429}, {protocol.FunctionLog, 200},
	} {
		if code := call(want.function); code != want.code {
			t.Errorf("call %d, %s: %d, want %d", i, want.function, code, want.code)
		}
	}
	if got := strings.Join(carried, " "); got != "event log" {
		t.Errorf("carried out: %s", got)
	}
	d, _ := u.denial("c")
	if want := "was forbidden to call the host function delete, which the configuration does not grant (1 requests so far)"; d.String() != want {
		t.Errorf("denial %q, want %q", d, want)
	}
}

// What the operator withholds of what a manifest asks for is answered 403, and
// the plugin's status says so.
func TestHostFunctionsAreWithheld(t *testing.T) {
	api := newFakeAPI(t, "one")
	cfg := testConfig(t, TransportWASM)
	cfg.Bundles = []BundleConfig{{Name: "greeter", Transport: TransportWASM, HostFunctions: []string{protocol.FunctionGet}}}
	cfg.Profiles, cfg.Controllers = nil, []string{"greeter"}
	h := runHostWith(t, cfg, nil, Deps{Identity: func(context.Context, string, Access) (string, error) { return api.socket, nil }})
	eventually(t, "a ready plugin and word of it in the status", func() bool {
		s := greeter(h)
		return s.State == v1alpha1.PluginStateReady && strings.Contains(s.Message, "was forbidden to call the host function create, which the configuration does not grant")
	})
	if api.greeting("one") != "" {
		t.Error("it could create what it may not")
	}
}
