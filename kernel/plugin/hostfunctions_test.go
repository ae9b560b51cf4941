package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/output"
	"pintle.dev/pintle/kernel/plugin/process"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
	"pintle.dev/pintle/sdk/reconciler/protocol"
)

// A controller of a module calls no more often than it may, an instance or many,
// and nothing that the operator withholds.
func TestHostFunctionsAreBounded(t *testing.T) { synctest.Test(t, hostFunctionsAreBounded) }

// hostFunctionsAreBounded runs with a clock that stands still while it works.
func hostFunctionsAreBounded(t *testing.T) {
	u := &unit{
		bundle: &manifest.Bundle{Manifest: &manifest.Manifest{Name: "b", Plugins: []manifest.Entry{{Name: "c"}}}}, log: slog.New(slog.DiscardHandler), budget: output.NewBudget(),
		limits: process.Ceilings{Calls: 2}, config: BundleConfig{HostFunctions: []string{protocol.FunctionEvent}},
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
	cfg := testConfig(t, manifest.TransportWASM)
	cfg.Bundles = []BundleConfig{{Name: "greeter", Transport: manifest.TransportWASM, HostFunctions: []string{protocol.FunctionGet}}}
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

// A Plugin object takes host functions away, and gives none that the manifest does
// not ask for; the bundle's plugins get an instance that has what is left.
func TestPluginObjectWithholdsHostFunctions(t *testing.T) {
	cfg := testConfig(t, manifest.TransportWASM)
	cfg.Bundles, cfg.Profiles = []BundleConfig{{Name: "greeter", Transport: manifest.TransportWASM}}, nil
	h, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	object := func(functions ...string) *v1alpha1.Plugin {
		return &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "greeter"}, Spec: v1alpha1.PluginSpec{Bundle: "greeter", Kind: "controller", Transport: manifest.TransportWASM, HostFunctions: functions}}
	}
	for want, o := range map[string]*v1alpha1.Plugin{
		"": object("get"),
		"spec.hostFunctions[1]: Forbidden: the bundle's manifest does not ask for it": object("get", "delete"),
		`spec.hostFunctions[0]: Unsupported value: "fly"`:                             object("fly"),
	} {
		list := h.Admit(t.Context(), object(), o)
		if text := fmt.Sprint(list.ToAggregate()); len(list) > 0 != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%v: %s, want %q", o.Spec.HostFunctions, text, want)
		}
	}
	before := h.present()
	next, err := h.newPlan(before.base, before.wishes.with(before, change{name: "greeter", old: object(), now: object("get")}), before)
	if err != nil {
		t.Fatal(err)
	}
	if u := next.units[0]; u == before.units[0] || !slices.Equal(u.config.HostFunctions, []string{"get"}) {
		t.Errorf("the unit is granted %q", u.config.HostFunctions)
	}
	if got := next.specs["greeter"].HostFunctions; !slices.Equal(got, []string{"get"}) {
		t.Errorf("the spec in force has %q", got)
	}
}
