package events

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

const (
	// namespace is where events about objects without one are.
	namespace = metav1.NamespaceDefault
	component = "pintle-plugin-host"
	// maxMessage is the API's bound.
	maxMessage = 1024
)

// Reasons of events.
const (
	reasonUnavailable = "Unavailable"
	reasonAvailable   = "Available"
	reasonVersion     = "VersionChanged"
	reasonNotInForce  = "NotInForce"
	reasonInForce     = "InForce"
)

// Teller writes events. It is safe for concurrent use.
type Teller struct {
	client     clientv1.EventsGetter
	correlator *record.EventCorrelator
	clock      clock.Clock
}

// New makes a teller; it talks to nobody yet.
func New(client clientv1.EventsGetter, now clock.Clock) *Teller {
	return &Teller{client: client, correlator: record.NewEventCorrelator(now), clock: now}
}

// happening is what there is to tell.
type happening struct{ kind, reason, message string }

// broken reports whether a plugin does not work in a state.
func broken(s v1alpha1.PluginState) bool {
	return s == v1alpha1.PluginStateBackOff || s == v1alpha1.PluginStateFailed
}

// between is what happened from one state of an object to the next.
func between(was, is *v1alpha1.Plugin) []happening {
	var out []happening
	before, now := &was.Status, &is.Status
	switch {
	case broken(now.State) && !broken(before.State):
		out = append(out, happening{corev1.EventTypeWarning, reasonUnavailable, fmt.Sprintf("plugin is %s: %s", now.State, now.Message)})
	case now.State.Serves() && broken(before.State):
		out = append(out, happening{corev1.EventTypeNormal, reasonAvailable, "plugin answers again"})
	}
	if before.Version != "" && now.Version != "" && (before.Version != now.Version || before.Digest != now.Digest) {
		out = append(out, happening{corev1.EventTypeNormal, reasonVersion,
			fmt.Sprintf("bundle %s turned from version %s (%s) to %s (%s)", is.Spec.Bundle, before.Version, before.Digest, now.Version, now.Digest)})
	}
	accepted := func(s *v1alpha1.PluginStatus) *metav1.Condition {
		return meta.FindStatusCondition(s.Conditions, v1alpha1.PluginConditionAccepted)
	}
	a, b := accepted(before), accepted(now)
	switch refused := b != nil && b.Status == metav1.ConditionFalse; {
	case refused && (a == nil || a.Status != metav1.ConditionFalse || a.Message != b.Message):
		out = append(out, happening{corev1.EventTypeWarning, reasonNotInForce, "spec is not in force: " + b.Message})
	case b != nil && !refused && a != nil && a.Status == metav1.ConditionFalse:
		out = append(out, happening{corev1.EventTypeNormal, reasonInForce, "spec is in force"})
	}
	return out
}

// Tell writes what happened to a plugin between two states of its object.
func (t *Teller) Tell(ctx context.Context, was, is *v1alpha1.Plugin) {
	for _, h := range between(was, is) {
		now := metav1.NewTime(t.clock.Now())
		event := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", is.Name, now.UnixNano()), Namespace: namespace},
			InvolvedObject: corev1.ObjectReference{
				APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Plugin", Name: is.Name, UID: is.UID, ResourceVersion: is.ResourceVersion,
			},
			Type: h.kind, Reason: h.reason, Message: clipped(h.message), Count: 1, FirstTimestamp: now, LastTimestamp: now,
			Source: corev1.EventSource{Component: component}, ReportingController: component,
		}
		t.write(ctx, event)
	}
}

func (t *Teller) write(ctx context.Context, event *corev1.Event) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := t.correlator.EventCorrelate(event)
	if err != nil || r.Skip {
		return
	}
	var made *corev1.Event
	if r.Event.Count > 1 {
		made, err = t.client.Events(namespace).Patch(ctx, r.Event.Name, types.StrategicMergePatchType, r.Patch, metav1.PatchOptions{})
	}
	if r.Event.Count <= 1 || err != nil { // the one that was counted may be gone
		r.Event.ResourceVersion = ""
		made, err = t.client.Events(namespace).Create(ctx, r.Event, metav1.CreateOptions{})
	}
	if err == nil {
		t.correlator.UpdateState(made)
	}
}

// clipped is a text that the API takes.
func clipped(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	cut := maxMessage - len("…")
	for cut > 0 && text[cut]&0xc0 == 0x80 { // within a letter
		cut--
	}
	return text[:cut] + "…"
}
