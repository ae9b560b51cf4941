package api

import (
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// addOptionConversions reads the options of the connecting subresources from
// a URL's query.
func addOptionConversions(s *runtime.Scheme) error {
	return firstError(
		addOptions(s, func(q query, o *corev1.PodLogOptions) {
			q.text("container", &o.Container)
			q.flag("follow", &o.Follow)
			q.flag("previous", &o.Previous)
			q.integer("sinceSeconds", &o.SinceSeconds)
			if v, ok := q.get("sinceTime"); ok {
				q.note(metav1.Convert_Slice_string_To_Pointer_v1_Time(&v, &o.SinceTime, nil))
			}
			q.flag("timestamps", &o.Timestamps)
			q.integer("tailLines", &o.TailLines)
			q.integer("limitBytes", &o.LimitBytes)
			q.flag("insecureSkipTLSVerifyBackend", &o.InsecureSkipTLSVerifyBackend)
			if v, ok := q.get("stream"); ok {
				o.Stream = &v[0]
			}
		}),
		addOptions(s, func(q query, o *corev1.PodExecOptions) {
			q.flag("stdin", &o.Stdin)
			q.flag("stdout", &o.Stdout)
			q.flag("stderr", &o.Stderr)
			q.flag("tty", &o.TTY)
			q.text("container", &o.Container)
			o.Command, _ = q.get("command")
		}),
		addOptions(s, func(q query, o *corev1.PodAttachOptions) {
			q.flag("stdin", &o.Stdin)
			q.flag("stdout", &o.Stdout)
			q.flag("stderr", &o.Stderr)
			q.flag("tty", &o.TTY)
			q.text("container", &o.Container)
		}),
		addOptions(s, func(q query, o *corev1.PodPortForwardOptions) {
			if v, ok := q.get("ports"); ok {
				q.note(metav1.Convert_Slice_string_To_Slice_int32(&v, &o.Ports, nil))
			}
		}),
		addOptions(s, func(q query, o *corev1.PodProxyOptions) { q.text("path", &o.Path) }),
		addOptions(s, func(q query, o *corev1.NodeProxyOptions) { q.text("path", &o.Path) }),
		addOptions(s, func(q query, o *corev1.ServiceProxyOptions) { q.text("path", &o.Path) }),
	)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func addOptions[T any](s *runtime.Scheme, read func(query, *T)) error {
	return s.AddConversionFunc((*url.Values)(nil), (*T)(nil), func(a, b any, _ conversion.Scope) error {
		q := query{values: *a.(*url.Values), err: new(error)}
		read(q, b.(*T))
		return *q.err
	})
}

// query reads typed values and keeps the first error.
type query struct {
	values url.Values
	err    *error
}

func (q query) note(err error) {
	if *q.err == nil {
		*q.err = err
	}
}

func (q query) get(name string) ([]string, bool) {
	v, ok := q.values[name]
	return v, ok && len(v) > 0
}

func (q query) text(name string, into *string) {
	if v, ok := q.get(name); ok {
		q.note(runtime.Convert_Slice_string_To_string(&v, into, nil))
	}
}

func (q query) flag(name string, into *bool) {
	if v, ok := q.get(name); ok {
		q.note(runtime.Convert_Slice_string_To_bool(&v, into, nil))
	}
}

func (q query) integer(name string, into **int64) {
	if v, ok := q.get(name); ok {
		q.note(runtime.Convert_Slice_string_To_Pointer_int64(&v, into, nil))
	}
}
