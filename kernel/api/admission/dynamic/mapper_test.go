package dynamic

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

// A kind that comes later is found, and who names kinds that are none has discovery
// asked anew once a second, however often.
func TestRESTMappingsOfNewKinds(t *testing.T) {
	client := fake.NewClientset().Discovery().(*fakediscovery.FakeDiscovery)
	client.Resources = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true}}}}
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	m := newMapper(client, now)
	if found, err := m.RESTMappings(schema.GroupKind{Kind: "Pod"}, "v1"); err != nil || len(found) != 1 || found[0].Resource.Resource != "pods" {
		t.Fatalf("pods: %v, %v", found, err)
	}
	none := schema.GroupKind{Group: "example.com", Kind: "Widget"}
	if _, err := m.RESTMappings(none, "v1"); !meta.IsNoMatchError(err) {
		t.Fatalf("a kind that is none: %v", err)
	}
	asked := len(client.Actions())
	for range 1000 {
		if _, err := m.RESTMappings(none, "v1"); !meta.IsNoMatchError(err) {
			t.Fatalf("a kind that is none: %v", err)
		}
	}
	if more := len(client.Actions()) - asked; more != 0 {
		t.Errorf("discovery was asked %d times more within a second", more)
	}
	client.Resources = append(client.Resources, &metav1.APIResourceList{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Namespaced: true}}})
	now.SetTime(time.Unix(1001, 0))
	if found, err := m.RESTMappings(none, "v1"); err != nil || len(found) != 1 || found[0].Resource.Resource != "widgets" {
		t.Errorf("a second later: %v, %v", found, err)
	}
}
