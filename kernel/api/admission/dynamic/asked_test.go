package dynamic

import (
	"errors"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func rule(operation admissionv1.OperationType, resources ...string) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{operation}, Rule: admissionv1.Rule{
		APIGroups: []string{"example.com"}, APIVersions: []string{"v9"}, Resources: resources,
	}}
}

func attributes(operation admission.Operation, resource, subresource string) admission.Attributes {
	return admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{Version: "v1", Resource: resource}, subresource, operation, nil, false, nil)
}

// started are plugins over objects that are there from the start.
func started(t testing.TB, objects ...runtime.Object) (*Plugins, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	plugins, err := New(Config{Client: client, Informers: factory, Stop: t.Context().Done()}, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if !plugins.Asked(attributes(admission.Create, "pods", "")) {
		t.Error("before it is known what is configured, nothing may be asked")
	}
	factory.Start(t.Context().Done())
	for _, p := range plugins.List() {
		if !p.await(t.Context()) {
			t.Fatal("what is configured does not become known")
		}
	}
	return plugins, client
}

// Who leaves the handlers aside gives way wherever a rule may match: by whatever group
// and version, which an equivalent resource may have.
func TestAsked(t *testing.T) {
	webhook := func(r admissionv1.RuleWithOperations) runtime.Object {
		return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Webhooks: []admissionv1.ValidatingWebhook{{Name: "w", Rules: []admissionv1.RuleWithOperations{r}}}}
	}
	policy := func(r admissionv1.RuleWithOperations) []runtime.Object {
		return []runtime.Object{
			&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: r}}}}},
			&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p"}},
		}
	}
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		a       admission.Attributes
		want    bool
	}{
		{"nothing", nil, attributes(admission.Create, "pods", ""), false},
		{"of another group", []runtime.Object{webhook(rule("CREATE", "pods"))}, attributes(admission.Create, "pods", ""), true},
		{"another operation", []runtime.Object{webhook(rule("UPDATE", "pods"))}, attributes(admission.Create, "pods", ""), false},
		{"every operation", []runtime.Object{webhook(rule("*", "pods"))}, attributes(admission.Delete, "pods", ""), true},
		{"another resource", []runtime.Object{webhook(rule("*", "nodes"))}, attributes(admission.Create, "pods", ""), false},
		{"no subresource", []runtime.Object{webhook(rule("*", "pods", "*"))}, attributes(admission.Create, "pods", "binding"), false},
		{"its subresource", []runtime.Object{webhook(rule("*", "pods/binding"))}, attributes(admission.Create, "pods", "binding"), true},
		{"all its subresources", []runtime.Object{webhook(rule("*", "pods/*"))}, attributes(admission.Create, "pods", "binding"), true},
		{"the subresource of all", []runtime.Object{webhook(rule("*", "*/binding"))}, attributes(admission.Create, "pods", "binding"), true},
		{"everything", []runtime.Object{webhook(rule("*", "*/*"))}, attributes(admission.Create, "pods", "binding"), true},
		{"a policy", policy(rule("*", "pods")), attributes(admission.Create, "pods", ""), true},
		{"a policy without a binding", policy(rule("*", "pods"))[:1], attributes(admission.Create, "pods", ""), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			plugins, _ := started(t, test.objects...)
			for range 2 { // found, and remembered
				if got := plugins.Asked(test.a); got != test.want {
					t.Errorf("asked %v, want %v", got, test.want)
				}
			}
		})
	}
}

// A plugin that is first needed when the server stops is an error, and no fault.
func TestMadeWhileStopping(t *testing.T) {
	stop := make(chan struct{})
	fails := func() (admission.Interface, error) { panic("an informer that has ended takes no handler") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a fault of a server that runs is hidden")
			}
		}()
		_, _ = whileRunning(fails, stop)()
	}()
	meanwhile := whileRunning(func() (admission.Interface, error) {
		close(stop)
		return fails()
	}, stop)
	if plugin, err := meanwhile(); plugin != nil || !errors.Is(err, errStopping) {
		t.Errorf("meanwhile: %v, %v", plugin, err)
	}
	if plugin, err := whileRunning(fails, stop)(); plugin != nil || !errors.Is(err, errStopping) {
		t.Errorf("after: %v, %v", plugin, err)
	}
}

// BenchmarkUnconfigured is what each create pays where nothing is configured.
func BenchmarkUnconfigured(b *testing.B) {
	plugins, _ := started(b)
	a := attributes(admission.Create, "pods", "")
	b.ReportAllocs()
	for b.Loop() {
		if plugins.Asked(a) {
			b.Fatal("asked")
		}
		for _, p := range plugins.List() {
			if err := p.Admit(b.Context(), a, nil); err != nil {
				b.Fatal(err)
			}
			if err := p.Validate(b.Context(), a, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}
