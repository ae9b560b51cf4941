package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/sdk/reconciler/protocol"
)

const (
	// maxMessage bounds the words of a line of the log.
	maxMessage = 8 << 10
	// maxRecord bounds a line with all its attributes: nobody bounds those.
	maxRecord = 16 << 10
)

// Operations carry out a controller's host functions with its identity.
type Operations struct {
	name        string
	client      dynamic.Interface
	log         *slog.Logger
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewOperations makes the clients and starts the writer of events, which Close ends.
func NewOperations(name string, config *rest.Config, log *slog.Logger) (*Operations, error) {
	plain := rest.CopyConfig(config)
	plain.ContentType, plain.AcceptContentTypes = "", ""
	client, err := dynamic.NewForConfig(plain)
	if err != nil {
		return nil, fmt.Errorf("controller %s: client: %w", name, err)
	}
	typed, err := kubernetes.NewForConfig(plain)
	if err != nil {
		return nil, fmt.Errorf("controller %s: client: %w", name, err)
	}
	return OperationsOver(name, client, typed.CoreV1(), log), nil
}

// OperationsOver is NewOperations with clients that are there, such as fakes.
func OperationsOver(name string, client dynamic.Interface, events typedcorev1.EventsGetter, log *slog.Logger) *Operations {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o := &Operations{name: name, client: client, log: log, broadcaster: record.NewBroadcaster()}
	o.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: events.Events(metav1.NamespaceAll)})
	o.recorder = o.broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: name})
	return o
}

// Close ends the writer of events.
func (o *Operations) Close() { o.broadcaster.Shutdown() }

// Operate carries out a host function. The request is a protocol.Request (of
// log a protocol.Record), the answer a protocol.Answer, both as JSON; what is
// wrong with the request is in the answer.
func (o *Operations) Operate(ctx context.Context, function string, request []byte) []byte {
	object, err := o.operate(ctx, function, request)
	answer := protocol.Answer{}
	if err != nil {
		answer.Status = statusOf(err)
	} else if object != nil {
		if answer.Object, err = json.Marshal(object); err != nil {
			answer.Status = statusOf(err)
		}
	}
	data, err := json.Marshal(answer)
	if err == nil && len(data) > protocol.MaxAnswerBytes {
		answer = protocol.Answer{Status: statusOf(apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the answer has %d bytes, at most %d are given; ask with a limit", len(data), protocol.MaxAnswerBytes)))}
		data, err = json.Marshal(answer)
	}
	if err != nil {
		return []byte(`{"status":{"code":500,"reason":"InternalError","message":"the answer could not be encoded"}}`)
	}
	return data
}

func statusOf(err error) *protocol.Status {
	var api apierrors.APIStatus
	if errors.As(err, &api) {
		s := api.Status()
		return &protocol.Status{Code: int(s.Code), Reason: string(s.Reason), Message: s.Message}
	}
	return &protocol.Status{Code: http.StatusInternalServerError, Reason: string(metav1.StatusReasonInternalError), Message: err.Error()}
}

func bad(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}

func (o *Operations) operate(ctx context.Context, function string, request []byte) (any, error) {
	if len(request) > protocol.MaxRequestBytes {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%s: a request of %d bytes; at most %d are taken", function, len(request), protocol.MaxRequestBytes))
	}
	if function == protocol.FunctionLog {
		return nil, o.write(request)
	}
	var r protocol.Request
	if err := json.Unmarshal(request, &r); err != nil {
		return nil, bad("%s: request: %v", function, err)
	}
	if function == protocol.FunctionEvent {
		return nil, o.event(&r)
	}
	resource, err := protocol.ParseResource(r.Resource)
	if err != nil {
		return nil, bad("%s: %v", function, err)
	}
	var client dynamic.ResourceInterface = o.client.Resource(gvr(resource))
	if r.Namespace != "" {
		client = o.client.Resource(gvr(resource)).Namespace(r.Namespace)
	}
	if r.Name == "" && (function == protocol.FunctionGet || function == protocol.FunctionPatch || function == protocol.FunctionDelete) {
		return nil, bad("%s %s: name is missing", function, resource)
	}
	manager := r.FieldManager
	if manager == "" {
		manager = o.name
	}
	var under []string
	if r.Subresource != "" {
		under = append(under, r.Subresource)
	}
	switch function {
	case protocol.FunctionGet:
		return client.Get(ctx, r.Name, metav1.GetOptions{}, under...)
	case protocol.FunctionList:
		return client.List(ctx, metav1.ListOptions{LabelSelector: r.LabelSelector, FieldSelector: r.FieldSelector, Limit: r.Limit, Continue: r.Continue})
	case protocol.FunctionCreate, protocol.FunctionUpdate:
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(r.Object); err != nil {
			return nil, bad("%s %s: object: %v", function, resource, err)
		}
		if function == protocol.FunctionCreate {
			return client.Create(ctx, object, metav1.CreateOptions{FieldManager: manager}, under...)
		}
		return client.Update(ctx, object, metav1.UpdateOptions{FieldManager: manager}, under...)
	case protocol.FunctionPatch:
		options := metav1.PatchOptions{FieldManager: manager}
		var form types.PatchType
		switch r.PatchType {
		case "json":
			form = types.JSONPatchType
		case "merge":
			form = types.MergePatchType
		case "strategic":
			form = types.StrategicMergePatchType
		case "apply":
			form, options.Force = types.ApplyPatchType, &r.Force
		default:
			return nil, bad("patch %s: patchType %q; want json, merge, strategic or apply", resource, r.PatchType)
		}
		return client.Patch(ctx, r.Name, form, r.Patch, options, under...)
	case protocol.FunctionDelete:
		options := metav1.DeleteOptions{}
		if r.UID != "" || r.ResourceVersion != "" {
			options.Preconditions = &metav1.Preconditions{}
			if r.UID != "" {
				uid := types.UID(r.UID)
				options.Preconditions.UID = &uid
			}
			if r.ResourceVersion != "" {
				options.Preconditions.ResourceVersion = &r.ResourceVersion
			}
		}
		if r.PropagationPolicy != "" {
			policy := metav1.DeletionPropagation(r.PropagationPolicy)
			options.PropagationPolicy = &policy
		}
		return nil, client.Delete(ctx, r.Name, options, under...)
	}
	return nil, bad("there is no host function %q", function)
}

func (o *Operations) event(r *protocol.Request) error {
	if r.Kind == "" || r.Name == "" || r.Reason == "" {
		return bad("event: want kind and name of the object, and a reason")
	}
	if r.Type != corev1.EventTypeNormal && r.Type != corev1.EventTypeWarning {
		return bad("event: type %q; want Normal or Warning", r.Type)
	}
	var about runtime.Object = &corev1.ObjectReference{
		APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: types.UID(r.UID),
	}
	o.recorder.Event(about, r.Type, cut(r.Reason, 128), cut(r.Message, 1024))
	return nil
}

func (o *Operations) write(line []byte) error {
	if len(line) > maxRecord {
		o.log.Warn("a record for the log was left out", "bytes", len(line), "most", maxRecord)
		return bad("log: a record of %d bytes; at most %d are taken", len(line), maxRecord)
	}
	var record protocol.Record
	if err := json.Unmarshal(line, &record); err != nil {
		return bad("log: %v", err)
	}
	attributes := make([]any, 0, 2*len(record.Attributes))
	for key, value := range record.Attributes {
		if text, ok := value.(string); ok {
			value = cut(text, maxMessage)
		}
		attributes = append(attributes, key, value)
	}
	o.log.Log(context.Background(), slog.Level(record.Level), cut(record.Message, maxMessage), attributes...)
	return nil
}

func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
