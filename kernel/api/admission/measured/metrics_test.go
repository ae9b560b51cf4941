package measured

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

type plugin struct{ err error }

func (plugin) Handles(operation admission.Operation) bool { return operation != admission.Delete }

type mutating struct{ plugin }

func (p mutating) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return p.err
}

type validating struct{ plugin }

func (p validating) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return p.err
}

type twofold struct {
	mutating
	validating
}

func (twofold) Handles(admission.Operation) bool { return true }

func request(operation admission.Operation) admission.Attributes {
	return admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "", operation, nil, false, nil)
}

func counted(t *testing.T, m *Metrics) []string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, s := range f.GetMetric() {
			line := f.GetName()
			for _, l := range s.GetLabel() {
				line += " " + l.GetName() + "=" + l.GetValue()
			}
			out = append(out, fmt.Sprintf("%s: %d", line, s.GetHistogram().GetSampleCount()))
		}
	}
	slices.Sort(out)
	return out
}

// TestMetrics: a plugin is measured by what it does, and does what it did.
func TestMetrics(t *testing.T) {
	m, refused := New(), errors.New("refused")
	if p := m.Plugin("none", plugin{}); p != admission.Interface(plugin{}) {
		t.Error("a plugin that does nothing is wrapped")
	}
	for name, p := range map[string]admission.Interface{"M": mutating{plugin{refused}}, "V": validating{}, "B": twofold{validating: validating{plugin{refused}}}} {
		measured := m.Plugin(name, p)
		mutates, isMutating := measured.(admission.MutationInterface)
		if _, want := p.(admission.MutationInterface); isMutating != want {
			t.Errorf("%s admits: %t", name, isMutating)
		}
		validates, isValidating := measured.(admission.ValidationInterface)
		if _, want := p.(admission.ValidationInterface); isValidating != want {
			t.Errorf("%s validates: %t", name, isValidating)
		}
		if measured.Handles(admission.Delete) != p.Handles(admission.Delete) || !measured.Handles(admission.Create) {
			t.Errorf("%s handles other requests", name)
		}
		for range 2 {
			if isMutating && !errors.Is(mutates.Admit(t.Context(), request(admission.Create), nil), p.(admission.MutationInterface).Admit(t.Context(), nil, nil)) {
				t.Errorf("%s admits otherwise", name)
			}
			if isValidating && !errors.Is(validates.Validate(t.Context(), request(admission.Update), nil), p.(admission.ValidationInterface).Validate(t.Context(), nil, nil)) {
				t.Errorf("%s validates otherwise", name)
			}
		}
	}
	chain := m.Chain(mutating{}, validating{plugin{refused}})
	if err := errors.Join(chain.Admit(t.Context(), request(admission.Connect), nil)); err != nil || !errors.Is(chain.Validate(t.Context(), request(admission.Delete), nil), refused) {
		t.Error("the chain does otherwise")
	}
	want := []string{
		"apiserver_admission_controller_admission_duration_seconds name=B operation=CREATE rejected=false type=admit: 2",
		"apiserver_admission_controller_admission_duration_seconds name=B operation=UPDATE rejected=true type=validate: 2",
		"apiserver_admission_controller_admission_duration_seconds name=M operation=CREATE rejected=true type=admit: 2",
		"apiserver_admission_controller_admission_duration_seconds name=V operation=UPDATE rejected=false type=validate: 2",
		"apiserver_admission_step_admission_duration_seconds operation=CONNECT rejected=false type=admit: 1",
		"apiserver_admission_step_admission_duration_seconds operation=DELETE rejected=true type=validate: 1",
	}
	if got := counted(t, m); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// BenchmarkPlugin is what a plugin costs more.
func BenchmarkPlugin(b *testing.B) {
	a := request(admission.Create)
	for name, p := range map[string]admission.Interface{"plain": mutating{}, "measured": New().Plugin("M", mutating{})} {
		b.Run(name, func(b *testing.B) {
			p := p.(admission.MutationInterface)
			for b.Loop() {
				_ = p.Admit(context.Background(), a, nil)
			}
		})
	}
}
