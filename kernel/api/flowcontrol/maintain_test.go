package flowcontrol

import (
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	kinds "pintle.dev/pintle/kernel/api/resources/flowcontrol"
)

// stored are the bootstrap objects as the API server gives them back.
func stored(change func(runtime.Object)) []runtime.Object {
	var out []runtime.Object
	for _, o := range append(suggestedSchemas(), bootstrap.MandatoryFlowSchemas...) {
		o = o.DeepCopy()
		kinds.SetFlowSchemaDefaults(o)
		o.Generation = 1
		out = append(out, o)
	}
	for _, list := range [][]*flowcontrolv1.PriorityLevelConfiguration{bootstrap.SuggestedPriorityLevelConfigurations, bootstrap.MandatoryPriorityLevelConfigurations} {
		for _, o := range list {
			o = o.DeepCopy()
			kinds.SetPriorityLevelDefaults(o)
			o.Generation = 1
			out = append(out, o)
		}
	}
	for _, o := range out {
		if change != nil {
			change(o)
		}
	}
	return out
}

// changes are what was written, as "verb name".
func changes(c *fake.Clientset) []string {
	var out []string
	for _, a := range c.Actions() {
		switch a := a.(type) {
		case clienttesting.CreateAction:
			out = append(out, a.GetVerb()+" "+a.GetObject().(metav1.Object).GetName())
		case clienttesting.DeleteAction:
			out = append(out, "delete "+a.GetName())
		}
	}
	return out
}

func TestEnsureMakesAll(t *testing.T) {
	c := fake.NewClientset()
	if err := Ensure(t.Context(), c.FlowcontrolV1()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"exempt", "catch-all", "node-high", "system", "leader-election", "workload-high", "workload-low", "global-default"} {
		if _, err := c.FlowcontrolV1().PriorityLevelConfigurations().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"exempt", "catch-all", "system-leader-election", "system-nodes", "service-accounts", "pintle-plugins", "pintle-cluster-admins", "pintle-proxies"} {
		if _, err := c.FlowcontrolV1().FlowSchemas().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func TestEnsureLeavesWhatIsRight(t *testing.T) {
	c := fake.NewClientset(stored(nil)...)
	if err := Ensure(t.Context(), c.FlowcontrolV1()); err != nil {
		t.Fatal(err)
	}
	if got := changes(c); len(got) != 0 {
		t.Errorf("written: %v", got)
	}
}

func TestEnsureUpdates(t *testing.T) {
	tests := []struct {
		name   string
		object string
		change func(o *flowcontrolv1.FlowSchema)
		// want is the precedence and the annotation afterwards.
		precedence int32
		annotation string
	}{
		{"spec of a former version", "service-accounts", func(o *flowcontrolv1.FlowSchema) { o.Spec.MatchingPrecedence = 7 }, 9000, "true"},
		{"kept by an operator", "service-accounts", func(o *flowcontrolv1.FlowSchema) {
			o.Spec.MatchingPrecedence, o.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = 7, "false"
		}, 7, "false"},
		{"annotation taken away, spec edited", "service-accounts", func(o *flowcontrolv1.FlowSchema) {
			o.Spec.MatchingPrecedence, o.Annotations, o.Generation = 7, nil, 2
		}, 7, "false"},
		{"annotation taken away, spec never edited", "service-accounts", func(o *flowcontrolv1.FlowSchema) {
			o.Spec.MatchingPrecedence, o.Annotations = 7, nil
		}, 9000, "true"},
		{"annotation is nonsense", "service-accounts", func(o *flowcontrolv1.FlowSchema) {
			o.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = "perhaps"
		}, 9000, "true"},
		{"mandatory, kept by an operator", "catch-all", func(o *flowcontrolv1.FlowSchema) {
			o.Spec.MatchingPrecedence, o.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = 7, "false"
		}, 10000, "true"},
		{"own", "pintle-plugins", func(o *flowcontrolv1.FlowSchema) { o.Spec.MatchingPrecedence = 7 }, 800, "true"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := fake.NewClientset(stored(func(o runtime.Object) {
				if fs, ok := o.(*flowcontrolv1.FlowSchema); ok && fs.Name == tt.object {
					tt.change(fs)
				}
			})...)
			if err := Ensure(t.Context(), c.FlowcontrolV1()); err != nil {
				t.Fatal(err)
			}
			got, err := c.FlowcontrolV1().FlowSchemas().Get(t.Context(), tt.object, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if p, a := got.Spec.MatchingPrecedence, got.Annotations[flowcontrolv1.AutoUpdateAnnotationKey]; p != tt.precedence || a != tt.annotation {
				t.Errorf("precedence %d and annotation %q, want %d and %q", p, a, tt.precedence, tt.annotation)
			}
		})
	}
}

// What an operator lends of the exempt level stays.
func TestEnsureKeepsSharesOfExempt(t *testing.T) {
	c := fake.NewClientset(stored(func(o runtime.Object) {
		if l, ok := o.(*flowcontrolv1.PriorityLevelConfiguration); ok && l.Name == "exempt" {
			l.Spec.Exempt.NominalConcurrencyShares = ptr.To[int32](9)
		}
	})...)
	if err := Ensure(t.Context(), c.FlowcontrolV1()); err != nil {
		t.Fatal(err)
	}
	if got := changes(c); len(got) != 0 {
		t.Errorf("written: %v", got)
	}
}

// Only what is marked as a server's own, and is none any more, goes.
func TestEnsureDeletesFormerObjects(t *testing.T) {
	of := func(name, annotation string) runtime.Object {
		o := flowSchema(name, flowcontrolv1.Subject{})
		o.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = annotation
		if annotation == "" {
			o.Annotations = nil
		}
		return o
	}
	c := fake.NewClientset(append(stored(nil), of("former", "true"), of("kept", "false"), of("users", ""), of("odd", "x"))...)
	if err := Ensure(t.Context(), c.FlowcontrolV1()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(changes(c), ","); got != "delete former" {
		t.Errorf("written: %s", got)
	}
}

// Another server that writes at the same time is no failure; a store that refuses is.
func TestEnsureErrors(t *testing.T) {
	resource := flowcontrolv1.Resource("flowschemas")
	for _, tt := range []struct {
		name string
		err  error
		ok   bool
	}{
		{"there already", apierrors.NewAlreadyExists(resource, "x"), true},
		{"refused", apierrors.NewForbidden(resource, "x", nil), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := fake.NewClientset()
			c.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
			if err := Ensure(t.Context(), c.FlowcontrolV1()); (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}
