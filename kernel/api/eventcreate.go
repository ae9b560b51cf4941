package api

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
)

var (
	eventKind     = eventsv1.SchemeGroupVersion.WithKind("Event")
	eventResource = eventsv1.SchemeGroupVersion.WithResource("events")
)

// CreateEvents writes events as POSTs to events.k8s.io/v1 of the user would, past
// admission and validation, and all in one go. The caller gives away what the events point to, and their
// names are of client-go's making (util.GenerateEventName). Managed fields
// are made without looking: a recorder sets the same fields of each event. The errors are
// in the order of the events.
func (s *Server) CreateEvents(ctx context.Context, who user.Info, events []*eventsv1.Event) []error {
	b := &eventBatch{server: s, who: authenticated(who), registry: s.stores[corev1.Resource("events")]}
	b.manager = managerOf(userAgent(b.who))
	if s.admit.Asked(createsOfEvents) { // outside of the write: a webhook may take its time
		return askedAbout(len(events), func(i int) error { return b.create(ctx, events[i]) })
	}
	direct, ok := b.registry.Storage.Storage.(creator)
	ttl, err := b.registry.TTLFunc(nil, 0, false)
	if !ok || err != nil {
		failures := make([]error, len(events))
		for i, event := range events {
			if failures[i] = err; err == nil {
				failures[i] = b.create(ctx, event)
			}
		}
		return failures
	}
	failures := direct.CreateAll(ctx, len(events), func(i int) (string, runtime.Object, error) { return b.next(ctx, events[i]) }, ttl)
	for i, err := range failures {
		if err != nil {
			failures[i] = storeerr.InterpretCreateError(err, eventResource.GroupResource(), events[i].Name)
		}
	}
	return failures
}

// creator is a storage that takes many objects at once.
type creator interface {
	CreateAll(ctx context.Context, n int, object func(i int) (key string, obj runtime.Object, err error), ttl uint64) []error
}

// eventBatch is events that are written together.
type eventBatch struct {
	server   *Server
	who      user.Info
	registry *genericregistry.Store
	manager  string
	vetted   vettedEvent
}

// create writes an event by itself.
func (b *eventBatch) create(ctx context.Context, event *eventsv1.Event) error {
	e := b.coreEvent(event)
	ctx, _, validate, err := b.admitted(ctx, e)
	if err == nil {
		_, err = b.registry.Create(ctx, e, validate, &metav1.CreateOptions{})
	}
	return err
}

// next is the event as it is to be stored, and its key.
func (b *eventBatch) next(ctx context.Context, event *eventsv1.Event) (string, runtime.Object, error) {
	if key, e := b.vetted.like(event); e != nil {
		return key, e, nil
	}
	e := b.coreEvent(event)
	ctx, attributes, validate, err := b.admitted(ctx, e)
	if err != nil {
		return "", nil, err
	}
	rest.FillObjectMetaSystemFields(e)
	if errs := b.registry.CreateStrategy.Validate(ctx, e); len(errs) > 0 {
		return "", nil, apierrors.NewInvalid(eventKind.GroupKind(), e.Name, errs)
	}
	if err := validate(ctx, e); err != nil {
		return "", nil, err
	}
	eventAsStored(e)
	key, err := b.registry.KeyFunc(ctx, e.Name)
	if err != nil {
		return "", nil, err
	}
	if b.server.admit.EventsAlike(attributes) {
		b.vetted.remember(event, e, key)
	}
	return key, e, nil
}

// coreEvent is the event in the version of the storage.
func (b *eventBatch) coreEvent(event *eventsv1.Event) *corev1.Event {
	e := &corev1.Event{}
	toCoreEvent(event, e)
	e.ManagedFields = recordedFields(e, b.manager)
	return e
}

// admitted does what lies between a request and the registry, whose context and
// validation by admission it returns.
func (b *eventBatch) admitted(ctx context.Context, e *corev1.Event) (context.Context, admission.Attributes, rest.ValidateObjectFunc, error) {
	s := b.server
	ctx = asRequestOf(ctx, b.who, "create", eventResource, e.Namespace, "")
	attributes := admission.NewAttributesRecord(e, nil, eventKind, e.Namespace, e.Name, eventResource, "", admission.Create, &metav1.CreateOptions{}, false, b.who)
	interfaces := s.objectInterfaces()
	if s.admit.Handles(admission.Create) {
		if err := s.admit.Admit(ctx, attributes, interfaces); err != nil {
			return nil, nil, nil, err
		}
	}
	return ctx, attributes, rest.AdmissionToValidateObjectFunc(s.admit, attributes, interfaces), nil
}

// recordedFields are the managed fields of a new event.
func recordedFields(e *corev1.Event, manager string) []metav1.ManagedFieldsEntry {
	fields := fieldsOfEvent
	if e.Related != nil {
		fields = fieldsOfRelatedEvent
	}
	now := metav1.Unix(time.Now().Unix(), 0)
	return []metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: eventsv1.SchemeGroupVersion.String(),
		Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}}
}

// The fields that a recorder sets, without and with an object that is related.
const (
	fieldsOfEvent        = `{"f:action":{},"f:eventTime":{},"f:note":{},"f:reason":{},"f:regarding":{},"f:reportingController":{},"f:reportingInstance":{},"f:type":{}}`
	fieldsOfRelatedEvent = `{"f:action":{},"f:eventTime":{},"f:note":{},"f:reason":{},"f:regarding":{},"f:related":{},"f:reportingController":{},"f:reportingInstance":{},"f:type":{}}`
)

// eventAsStored takes from a new event what is not stored.
func eventAsStored(e *corev1.Event) {
	e.TypeMeta = metav1.TypeMeta{}
	e.CreationTimestamp = metav1.Unix(e.CreationTimestamp.Unix(), 0)
	e.EventTime = storedTime(e.EventTime)
}

func storedTime(t metav1.MicroTime) metav1.MicroTime {
	return metav1.NewMicroTime(time.UnixMicro(t.UnixMicro()))
}
