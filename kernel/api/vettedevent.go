package api

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"pintle.dev/pintle/kernel/api/resources"
)

// vettedEvent is the last event of a batch that admission let pass and validation found
// right, as far as others of the batch may be equal to it: what differs between
// those is checked by itself. Both were half of what an event takes, and a
// thousand pods that are bound have one event but for that.
type vettedEvent struct {
	shape eventShape
	event corev1.Event // as stored; what comes next is written over it
	// prefix is the key but for the name, which nothing in it depends on.
	prefix string
	second int64 // of its times
}

// eventShape is what an event has beside name, time, note and, of what it is about,
// name, UID and version. The zero value is no event's.
type eventShape struct {
	namespace, controller, instance, action, reason, kind string
	about                                                 corev1.ObjectReference
}

// shapeOfEvent has a shape for events that have nothing but that.
func shapeOfEvent(e *eventsv1.Event) (shape eventShape, ok bool) {
	if !plainMeta(&e.ObjectMeta) || e.Series != nil || e.Related != nil || e.DeprecatedSource != (corev1.EventSource{}) ||
		!e.DeprecatedFirstTimestamp.IsZero() || !e.DeprecatedLastTimestamp.IsZero() || e.DeprecatedCount != 0 {
		return shape, false
	}
	shape = eventShape{e.Namespace, e.ReportingController, e.ReportingInstance, e.Action, e.Reason, e.Type, e.Regarding}
	shape.about.Name, shape.about.UID, shape.about.ResourceVersion = "", "", ""
	return shape, true
}

// plainMeta: there is nothing but name and namespace.
func plainMeta(m *metav1.ObjectMeta) bool {
	return m.GenerateName == "" && m.SelfLink == "" && m.UID == "" && m.ResourceVersion == "" && m.Generation == 0 &&
		m.CreationTimestamp.IsZero() && m.DeletionTimestamp == nil && m.DeletionGracePeriodSeconds == nil &&
		m.Labels == nil && m.Annotations == nil && m.OwnerReferences == nil && m.Finalizers == nil && m.ManagedFields == nil
}

// like is the event as it is stored and its key, if what was vetted is like it: it is written
// over by the next. Nil: it is to be vetted by itself.
func (v *vettedEvent) like(event *eventsv1.Event) (key string, e *corev1.Event) {
	if v.prefix == "" || v.second != time.Now().Unix() {
		return "", nil
	}
	if shape, ok := shapeOfEvent(event); !ok || shape != v.shape {
		return "", nil
	}
	e = &v.event
	e.Name, e.UID, e.ResourceVersion = event.Name, uuid.NewUUID(), ""
	e.EventTime, e.Message = storedTime(event.EventTime), event.Note
	about := &e.InvolvedObject
	about.Name, about.UID, about.ResourceVersion = event.Regarding.Name, event.Regarding.UID, event.Regarding.ResourceVersion
	if !resources.EventStaysValid(e) {
		return "", nil
	}
	return v.prefix + e.Name, e
}

// remember keeps an event, which became e at a key.
func (v *vettedEvent) remember(event *eventsv1.Event, e *corev1.Event, key string) {
	*v = vettedEvent{}
	shape, ok := shapeOfEvent(event)
	prefix, named := strings.CutSuffix(key, e.Name)
	if ok && named && prefix != "" {
		*v = vettedEvent{shape, *e, prefix, e.CreationTimestamp.Unix()}
	}
}
