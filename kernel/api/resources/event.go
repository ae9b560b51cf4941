package resources

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// eventTTL is how long an event is kept, in seconds.
const eventTTL = 3600

func eventKind() Kind {
	gvk := corev1.SchemeGroupVersion.WithKind("Event")
	return Kind{
		GVK: gvk, Also: []schema.GroupVersion{eventsv1.SchemeGroupVersion}, Resource: "events", Singular: "event", ShortNames: []string{"ev"},
		New:      func() runtime.Object { return &corev1.Event{} },
		NewList:  func() runtime.Object { return &corev1.EventList{} },
		Strategy: eventStrategy{base{gvk: gvk, namespaced: true, createOnUpdate: true}},
		Fields:   eventFields,
		FieldNames: []string{
			"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
			"involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
			"reason", "reportingComponent", "source", "type",
		},
		Columns: eventColumns(), Row: row(eventCells),
		TTL: eventTTL,
	}
}

func eventFields(obj runtime.Object) fields.Set {
	e := obj.(*corev1.Event)
	source := e.Source.Component
	orElse(&source, e.ReportingController)
	o := &e.InvolvedObject
	set := make(fields.Set, 13)
	set["involvedObject.kind"] = o.Kind
	set["involvedObject.namespace"] = o.Namespace
	set["involvedObject.name"] = o.Name
	set["involvedObject.uid"] = string(o.UID)
	set["involvedObject.apiVersion"] = o.APIVersion
	set["involvedObject.resourceVersion"] = o.ResourceVersion
	set["involvedObject.fieldPath"] = o.FieldPath
	set["reason"] = e.Reason
	set["reportingComponent"] = e.ReportingController
	set["source"] = source
	set["type"] = e.Type
	return set
}

// eventStrategy is strict with requests of events.k8s.io and lenient with
// those of core, which share the storage.
type eventStrategy struct{ base }

var _ rest.GarbageCollectionDeleteStrategy = eventStrategy{}

func (eventStrategy) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	return rest.Unsupported
}

func (eventStrategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	e := obj.(*corev1.Event)
	strict := viaEvents(ctx)
	errs := validateAnyEvent(e, strict)
	if !strict {
		return errs
	}
	errs = append(errs, validateMeta(&e.ObjectMeta, true, eventName)...)
	errs = append(errs, validateSeries(e)...)
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", e.Type)))
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !e.FirstTimestamp.IsZero()}, {"lastTimestamp", !e.LastTimestamp.IsZero()},
		{"count", e.Count != 0}, {"source", e.Source != corev1.EventSource{}},
	} {
		if f.set {
			errs = append(errs, field.Invalid(field.NewPath(f.name), "", "needs to be unset"))
		}
	}
	return errs
}

func (eventStrategy) ValidateUpdate(ctx context.Context, obj, oldObj runtime.Object) field.ErrorList {
	e, old := obj.(*corev1.Event), oldObj.(*corev1.Event)
	strict := viaEvents(ctx)
	errs := validateAnyEvent(e, strict)
	if !strict {
		return errs
	}
	errs = append(errs, validateMetaUpdate(&e.ObjectMeta, &old.ObjectMeta)...)
	if !reflect.DeepEqual(e.Series, old.Series) {
		errs = append(errs, validateSeries(e)...)
	}
	for _, f := range []struct {
		name     string
		new, old any
	}{
		{"involvedObject", e.InvolvedObject, old.InvolvedObject},
		{"reason", e.Reason, old.Reason},
		{"message", e.Message, old.Message},
		{"source", e.Source, old.Source},
		{"firstTimestamp", e.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", e.LastTimestamp, old.LastTimestamp},
		{"count", e.Count, old.Count},
		{"type", e.Type, old.Type},
		{"action", e.Action, old.Action},
		{"related", e.Related, old.Related},
		{"reportingController", e.ReportingController, old.ReportingController},
		{"reportingInstance", e.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, apivalidation.ValidateImmutableField(f.new, f.old, field.NewPath(f.name))...)
	}
	// Protobuf carries nanoseconds and JSON microseconds.
	if !e.EventTime.Truncate(time.Microsecond).Equal(old.EventTime.Truncate(time.Microsecond)) {
		errs = append(errs, apivalidation.ValidateImmutableField(e.EventTime, old.EventTime, field.NewPath("eventTime"))...)
	}
	return errs
}

// EventStaysValid reports whether Validate finds nothing in an event, given that it
// found nothing in one that differs in name, message and time at most, or in name, UID and
// version of what it is about.
func EventStaysValid(e *corev1.Event) bool {
	return isSubdomain(e.Name) && len(e.Message) <= mostMessage && !e.EventTime.IsZero()
}

// mostMessage is how many bytes an event's message may have.
const mostMessage = 1024

func viaEvents(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.APIGroup == eventsv1.GroupName && info.APIVersion == "v1"
}

// validateAnyEvent: an event with eventTime is of the newer sort and says who
// reported it.
func validateAnyEvent(e *corev1.Event, strict bool) field.ErrorList {
	var errs field.ErrorList
	mismatch := func() {
		errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"), e.InvolvedObject.Namespace, "does not match event.namespace"))
	}
	about := e.InvolvedObject.Namespace
	if e.EventTime.IsZero() {
		if about == "" && e.Namespace != metav1.NamespaceNone && e.Namespace != metav1.NamespaceDefault || about != "" && about != e.Namespace {
			mismatch()
		}
	} else {
		if about == "" && e.Namespace != metav1.NamespaceDefault && e.Namespace != metav1.NamespaceSystem {
			mismatch()
		}
		// Few controllers report most events.
		if known := lastController.Load(); known == nil || *known != e.ReportingController {
			controller := field.NewPath("reportingComponent")
			if strict {
				controller = field.NewPath("reportingController")
			}
			wrong := append(required(controller, e.ReportingController), invalidAll(controller, e.ReportingController, validation.IsQualifiedName(e.ReportingController))...)
			if len(wrong) == 0 {
				name := strings.Clone(e.ReportingController)
				lastController.Store(&name)
			}
			errs = append(errs, wrong...)
		}
		for _, f := range []struct {
			name, value string
			most        int
			required    bool
		}{
			{"reportingInstance", e.ReportingInstance, 128, true}, {"action", e.Action, 128, true},
			{"reason", e.Reason, 128, true}, {"message", e.Message, mostMessage, false},
		} {
			if f.required && f.value == "" {
				errs = append(errs, required(field.NewPath(f.name), f.value)...)
			}
			if len(f.value) > f.most {
				errs = append(errs, field.Invalid(field.NewPath(f.name), "", fmt.Sprintf("can have at most %v characters", f.most)))
			}
		}
	}
	if isSubdomain(e.Namespace) {
		return errs
	}
	return append(errs, invalidAll(field.NewPath("namespace"), e.Namespace, validation.IsDNS1123Subdomain(e.Namespace))...)
}

// lastController is the last reporting controller whose name was right.
var lastController atomic.Pointer[string]

// eventName is apivalidation.NameIsDNSSubdomain, which says what is wrong.
func eventName(name string, prefix bool) []string {
	if !prefix && isSubdomain(name) {
		return nil
	}
	return apivalidation.NameIsDNSSubdomain(name, prefix)
}

// isSubdomain is validation.IsDNS1123Subdomain without its regular expression and its words.
func isSubdomain(s string) bool {
	if len(s) > validation.DNS1123SubdomainMaxLength {
		return false
	}
	before := byte('.') // what a label begins behind
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
		case c == '-' && before != '.', c == '.' && before != '.' && before != '-':
		default:
			return false
		}
		before = c
	}
	return before != '.' && before != '-'
}

func validateSeries(e *corev1.Event) field.ErrorList {
	if e.Series == nil {
		return nil
	}
	var errs field.ErrorList
	if e.Series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if e.Series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}
