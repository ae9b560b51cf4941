package events

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	testclock "k8s.io/utils/clock/testing"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

func plugin(state v1alpha1.PluginState, version, refusal string) *v1alpha1.Plugin {
	o := &v1alpha1.Plugin{Status: v1alpha1.PluginStatus{State: state, Version: version, Digest: "sha256:" + version, Message: "why"}}
	o.Name, o.UID, o.Spec.Bundle = "P", "uid", "b"
	c := metav1.Condition{Type: v1alpha1.PluginConditionAccepted, Status: metav1.ConditionTrue}
	if refusal != "" {
		c.Status, c.Message = metav1.ConditionFalse, refusal
	}
	o.Status.Conditions = []metav1.Condition{c}
	return o
}

// What people want to know is told, once, and a start and figures are not.
func TestBetween(t *testing.T) {
	const ready, starting, backoff = v1alpha1.PluginStateReady, v1alpha1.PluginStateStarting, v1alpha1.PluginStateBackOff
	for name, c := range map[string]struct {
		was, is *v1alpha1.Plugin
		want    []string
	}{
		"new":                    {&v1alpha1.Plugin{}, plugin(ready, "1", ""), nil},
		"a start":                {plugin(starting, "1", ""), plugin(ready, "1", ""), nil},
		"a restart":              {plugin(ready, "1", ""), plugin(starting, "1", ""), nil},
		"figures":                {plugin(ready, "1", ""), plugin(ready, "1", ""), nil},
		"it broke":               {plugin(ready, "1", ""), plugin(backoff, "1", ""), []string{"Unavailable"}},
		"it is still broken":     {plugin(backoff, "1", ""), plugin(v1alpha1.PluginStateFailed, "1", ""), nil},
		"it is back":             {plugin(backoff, "1", ""), plugin(ready, "1", ""), []string{"Available"}},
		"another version":        {plugin(ready, "1", ""), plugin(ready, "2", ""), []string{"VersionChanged"}},
		"refused":                {plugin(ready, "1", ""), plugin(ready, "1", "no"), []string{"NotInForce"}},
		"refused from the first": {&v1alpha1.Plugin{}, plugin(ready, "1", "no"), []string{"NotInForce"}},
		"still refused":          {plugin(ready, "1", "no"), plugin(ready, "1", "no"), nil},
		"refused otherwise":      {plugin(ready, "1", "no"), plugin(ready, "1", "never"), []string{"NotInForce"}},
		"taken":                  {plugin(ready, "1", "no"), plugin(ready, "1", ""), []string{"InForce"}},
	} {
		var got []string
		for _, h := range between(c.was, c.is) {
			got = append(got, h.reason)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Like events are one, a plugin that flaps floods nobody, and long words are cut.
func TestTell(t *testing.T) {
	client := fake.NewClientset()
	now := testclock.NewFakeClock(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	teller := New(client.CoreV1(), now)
	sound, refused := plugin(v1alpha1.PluginStateReady, "1", ""), plugin(v1alpha1.PluginStateReady, "1", strings.Repeat("ä", 5000))
	for range 200 {
		teller.Tell(context.Background(), sound, refused)
		now.Step(time.Second)
	}
	list, err := client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d events, %v; want one", len(list.Items), err)
	}
	e := list.Items[0]
	if e.Count < 2 || e.Count > 30 || e.Type != corev1.EventTypeWarning || e.InvolvedObject.Kind != "Plugin" || e.InvolvedObject.UID != "uid" {
		t.Errorf("%+v", e)
	}
	if len(e.Message) > maxMessage || !utf8.ValidString(e.Message) {
		t.Errorf("a message of %d bytes", len(e.Message))
	}
}
