package apiservices

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"pintle.dev/pintle/kernel/plugin/groupversions"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

func service(group string, labels map[string]string, to *apiregistrationv1.ServiceReference) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1." + group, Labels: labels},
		Spec:       apiregistrationv1.APIServiceSpec{Group: group, Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 100, Service: to},
	}
}

func by(plugin string) map[string]string { return map[string]string{v1alpha1.PluginLabel: plugin} }

func wants(plugin, group string) Wanted {
	return Wanted{Plugin: plugin, GroupVersion: groupversions.GroupVersion{Group: group, Version: "v1"}}
}

// there is what the API has: the plugin and the service of each APIService.
func there(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	list, err := client.ApiregistrationV1().APIServices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range list.Items {
		text := o.Name + " " + PluginOf(&o)
		if s := o.Spec.Service; s != nil {
			text = o.Name + " " + s.Namespace + "/" + s.Name
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestNobodysGroupVersionIsTaken(t *testing.T) {
	other := &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "svc"}
	custom := map[string]string{autoregister.AutoRegisterManagedLabel: "true"}
	for _, c := range []struct {
		name    string
		before  []*apiregistrationv1.APIService
		wanted  []Wanted
		after   string
		refused string
	}{
		{"free", nil, []Wanted{wants("notes", "n.example.com")}, "v1.n.example.com notes", "map[]"},
		{"its own", []*apiregistrationv1.APIService{service("n.example.com", by("notes"), nil)}, []Wanted{wants("notes", "n.example.com")}, "v1.n.example.com notes", "map[]"},
		{"the kernel's group", nil, []Wanted{wants("notes", "policy.example.com")}, "", "map[notes:[group policy.example.com is Kubernetes' own, and the kernel serves it]]"},
		{"of a custom resource", []*apiregistrationv1.APIService{service("n.example.com", custom, nil)}, []Wanted{wants("notes", "n.example.com")},
			"v1.n.example.com ", "map[notes:[n.example.com/v1 is served by a CustomResourceDefinition]]"},
		{"somebody's", []*apiregistrationv1.APIService{service("n.example.com", nil, other)}, []Wanted{wants("notes", "n.example.com")},
			"v1.n.example.com ns/svc", "map[notes:[n.example.com/v1 is served by service ns/svc, by APIService v1.n.example.com]]"},
		{"somebody's, who says that it is the plugin's", []*apiregistrationv1.APIService{service("n.example.com", by("notes"), other)}, []Wanted{wants("notes", "n.example.com")},
			"v1.n.example.com ns/svc", "map[notes:[n.example.com/v1 is served by service ns/svc, by APIService v1.n.example.com]]"},
		{"somebody's local one", []*apiregistrationv1.APIService{service("n.example.com", nil, nil)}, []Wanted{wants("notes", "n.example.com")},
			"v1.n.example.com ", "map[notes:[n.example.com/v1 is taken by APIService v1.n.example.com]]"},
		{"two plugins", nil, []Wanted{wants("a", "n.example.com"), wants("b", "n.example.com")}, "v1.n.example.com a", "map[b:[n.example.com/v1 is served by plugin a]]"},
		{"two plugins, one of which has it", []*apiregistrationv1.APIService{service("n.example.com", by("b"), nil)}, []Wanted{wants("a", "n.example.com"), wants("b", "n.example.com")},
			"v1.n.example.com b", "map[a:[n.example.com/v1 is served by plugin b]]"},
		{"of a plugin that is gone", []*apiregistrationv1.APIService{service("n.example.com", by("gone"), nil)}, []Wanted{wants("notes", "n.example.com")}, "v1.n.example.com notes", "map[]"},
		{"left by plugins and by an earlier version", []*apiregistrationv1.APIService{service("m.example.com", by("gone"), nil), service("l.example.com", by("notes"), nil), service("k.example.com", by("x"), other)},
			[]Wanted{wants("notes", "n.example.com")}, "v1.k.example.com ns/svc, v1.n.example.com notes", "map[]"},
		{"left when none is in use", []*apiregistrationv1.APIService{service("m.example.com", by("gone"), nil), service("apps", map[string]string{autoregister.AutoRegisterManagedLabel: "onstart"}, nil)}, nil, "v1.apps ", "map[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewSimpleClientset()
			for _, o := range c.before {
				if _, err := client.ApiregistrationV1().APIServices().Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			w := New(client.ApiregistrationV1(), func(group string) bool { return group == "policy.example.com" })
			refused, err := w.Write(t.Context(), c.wanted)
			if err != nil || fmt.Sprint(refused) != c.refused {
				t.Errorf("refused %v, %v; want %s", refused, err, c.refused)
			}
			if got := there(t, client); got != c.after {
				t.Errorf("there is %q, want %q", got, c.after)
			}
		})
	}
}

// The condition says what the plugin says, and is written when it is another.
func TestAvailableFollowsThePlugin(t *testing.T) {
	client := fake.NewSimpleClientset()
	w := New(client.ApiregistrationV1(), func(string) bool { return false })
	for _, step := range []struct {
		fault error
		want  string
		same  bool // nothing is written
	}{
		{errors.New("it is starting"), "False PluginNotAvailable it is starting", false},
		{errors.New("it is starting"), "False PluginNotAvailable it is starting", true},
		{nil, "True PluginReady plugin notes serves it", false},
		{nil, "True PluginReady plugin notes serves it", true},
	} {
		client.ClearActions()
		each := wants("notes", "n.example.com")
		each.Fault = step.fault
		if _, err := w.Write(t.Context(), []Wanted{each}); err != nil {
			t.Fatal(err)
		}
		o, err := client.ApiregistrationV1().APIServices().Get(t.Context(), "v1.n.example.com", metav1.GetOptions{})
		if err != nil || len(o.Status.Conditions) != 1 {
			t.Fatal(o, err)
		}
		c := o.Status.Conditions[0]
		if got := fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
		if writes := len(client.Actions()) - 2; step.same != (writes == 0) {
			t.Errorf("%d writes for %q", writes, step.want)
		}
	}
	// A priority that the manifest changes is followed, and what somebody changed mended.
	each := wants("notes", "n.example.com")
	each.GroupVersion.VersionPriority = 7
	if _, err := w.Write(t.Context(), []Wanted{each}); err != nil {
		t.Fatal(err)
	}
	if o, err := client.ApiregistrationV1().APIServices().Get(t.Context(), "v1.n.example.com", metav1.GetOptions{}); err != nil || o.Spec.VersionPriority != 7 {
		t.Error(o, err)
	}
	client.ClearActions()
	for range 2 {
		if _, err := w.Write(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(client.Actions()); n != 2 { // a list and a deletion, and then nothing
		t.Errorf("%d requests when nothing is wanted: %v", n, client.Actions())
	}
	// Another kernel wrote meanwhile.
	if _, err := client.ApiregistrationV1().APIServices().Create(t.Context(), service("m.example.com", by("notes"), nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Forget()
	if _, err := w.Write(t.Context(), nil); err != nil || there(t, client) != "" {
		t.Errorf("there is %q, %v", there(t, client), err)
	}
}
