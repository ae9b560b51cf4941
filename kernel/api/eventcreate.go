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
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
)

var (
	eventKind     = eventsv1.SchemeGroupVersion.WithKind("Event")
	eventResource = eventsv1.SchemeGroupVersion.WithResource("events")
)

// CreateEvents writes events as POSTs to events.k8s.io/v1 of the user would, past
// admission and validation, and all in one go. The caller gives the events away, and their
// names are of client-go's making (util.GenerateEventName). Managed fields
// are made without looking: a recorder sets the same fields of each event. The errors are
// in the order of the events.
func (s *Server) CreateEvents(ctx context.Context, who user.Info, events []*eventsv1.Event) []error {
	who = authenticated(who)
	registry := s.stores[corev1.Resource("events")]
	direct, ok := registry.Storage.Storage.(creator)
	failures := make([]error, len(events))
	var keys []string
	var objs []runtime.Object
	var of []int
	ttl, err := registry.TTLFunc(nil, 0, false)
	for i, event := range events {
		e := &corev1.Event{}
		toCoreEvent(event, e)
		e.ManagedFields = recordedFields(e, managerOf(userAgent(who)))
		if failures[i] = err; err == nil {
			failures[i] = s.createEvent(ctx, who, registry, e, ok)
		}
		if !ok || failures[i] != nil {
			continue
		}
		key, err := registry.KeyFunc(request.WithNamespace(ctx, e.Namespace), e.Name)
		if failures[i] = err; err == nil {
			keys, objs, of = append(keys, key), append(objs, e), append(of, i)
		}
	}
	if len(objs) == 0 {
		return failures
	}
	for k, err := range direct.CreateAll(ctx, keys, objs, ttl) {
		if err != nil {
			failures[of[k]] = storeerr.InterpretCreateError(err, eventResource.GroupResource(), events[of[k]].Name)
		}
	}
	return failures
}

// creator is a storage that takes many objects at once.
type creator interface {
	CreateAll(ctx context.Context, keys []string, objs []runtime.Object, ttl uint64) []error
}

// createEvent does what lies between a request and the storage, or the write as well
// unless many are written at once.
func (s *Server) createEvent(ctx context.Context, who user.Info, registry *genericregistry.Store, e *corev1.Event, later bool) error {
	ctx = asRequestOf(ctx, who, "create", eventResource, e.Namespace, "")
	options := &metav1.CreateOptions{}
	attributes := admission.NewAttributesRecord(e, nil, eventKind, e.Namespace, e.Name, eventResource, "", admission.Create, options, false, who)
	interfaces := objectInterfaces{s.scheme, s.generic.EquivalentResourceRegistry}
	if mutating, ok := s.admit.(admission.MutationInterface); ok && mutating.Handles(admission.Create) {
		if err := mutating.Admit(ctx, attributes, interfaces); err != nil {
			return err
		}
	}
	validate := rest.AdmissionToValidateObjectFunc(s.admit, attributes, interfaces)
	if !later {
		_, err := registry.Create(ctx, e, validate, options)
		return err
	}
	rest.FillObjectMetaSystemFields(e)
	if errs := registry.CreateStrategy.Validate(ctx, e); len(errs) > 0 {
		return apierrors.NewInvalid(eventKind.GroupKind(), e.Name, errs)
	}
	if err := validate(ctx, e); err != nil {
		return err
	}
	eventAsStored(e)
	return nil
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
	e.EventTime = metav1.NewMicroTime(time.UnixMicro(e.EventTime.UnixMicro()))
}
