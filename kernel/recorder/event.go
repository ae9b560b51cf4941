package recorder

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
)

// event makes what somebody said an event, as the API takes it.
func (r *Recorder) event(o *occurrence, into *eventsv1.Event) error {
	regarding, err := r.regarding(&o.regarding)
	if err != nil {
		return err
	}
	*into = eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: eventName(regarding.Name, o.at.UnixNano()), Namespace: regarding.Namespace},
		EventTime:           metav1.NewMicroTime(time.UnixMicro(o.at.UnixMicro())),
		ReportingController: o.controller, ReportingInstance: r.instance(o.controller),
		Action: o.action, Reason: o.reason, Type: o.kind, Regarding: regarding, Note: o.text(),
	}
	if into.Namespace == "" {
		into.Namespace = metav1.NamespaceDefault
	}
	if o.related != nil {
		s := subjectOf(o.related)
		related, err := r.regarding(&s)
		if err != nil {
			return err
		}
		into.Related = &related
	}
	return nil
}

// text is the note, formatted.
func (o *occurrence) text() string {
	if len(o.args) == 0 {
		return o.note
	}
	if text, ok := o.args[0].(string); ok && len(o.args) == 1 && o.note == "%s" {
		return text
	}
	return fmt.Sprintf(o.note, o.args...)
}

// regarding points to an object; to pods, most of all, without asking the scheme.
func (r *Recorder) regarding(s *subject) (corev1.ObjectReference, error) {
	if s.other == nil && s.name != "" {
		return corev1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: s.namespace, Name: s.name, UID: types.UID(s.uid), ResourceVersion: s.version,
		}, nil
	}
	to, err := reference.GetReference(r.deps.Scheme, s.other)
	if err != nil {
		return corev1.ObjectReference{}, err
	}
	return *to, nil
}

// instance names this process as the one in which a controller runs.
func (r *Recorder) instance(controller string) string {
	if known := r.reports.Load(); known != nil && known[0] == controller {
		return known[1]
	}
	made := controller + "-" + r.host
	r.reports.Store(&[2]string{controller, made})
	return made
}

// eventName is util.GenerateEventName, which checks what it makes by a regular expression.
func eventName(of string, at int64) string {
	if at < 0 || !isLabel(of) {
		return util.GenerateEventName(of, at)
	}
	var b strings.Builder
	b.Grow(len(of) + 1 + 16)
	b.WriteString(of)
	b.WriteByte('.')
	var digits [16]byte
	b.Write(strconv.AppendInt(digits[:0], at, 16))
	return b.String()
}

// isLabel says whether a name is a DNS label, as most are.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
