package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/envfile"
)

// Source gives the ConfigMaps and Secrets that a pod of this node refers to.
type Source interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// EnvInput is what a container's environment is made from.
type EnvInput struct {
	Pod         *corev1.Pod
	Container   *corev1.Container
	Services    []*corev1.Service // of all namespaces
	Addresses   Addresses
	Allocatable corev1.ResourceList
	// Skipped is told of envFrom keys that are no valid names: kind ConfigMap or Secret, its namespace/name, sorted keys.
	Skipped func(kind, object string, keys []string)
	// File reads a file of one of the pod's volumes; nil where there are no files.
	File func(volume, path string) ([]byte, error)
}

// masterServices are injected in each namespace, whatever enableServiceLinks says.
const masterService = "kubernetes"

// Env computes the environment: services first, then envFrom, then env, later ones winning, sorted by nothing: the
// order is that of the spec with services and envFrom ahead.
func Env(ctx context.Context, in EnvInput, source Source) ([]*runtimeapi.KeyValue, map[string]string, error) {
	values := map[string]string{}
	var order []string
	set := func(name, value string) {
		if _, has := values[name]; !has {
			order = append(order, name)
		}
		values[name] = value
	}
	service := map[string]string{}
	links := in.Pod.Spec.EnableServiceLinks == nil || *in.Pod.Spec.EnableServiceLinks
	for _, kv := range serviceEnv(in.Services, in.Pod.Namespace, links) {
		service[kv.Key] = string(kv.Value)
	}
	for i := range in.Container.EnvFrom {
		if err := envFrom(ctx, &in, &in.Container.EnvFrom[i], source, set); err != nil {
			return nil, nil, err
		}
	}
	lookup := func(name string) (string, bool) {
		if v, ok := values[name]; ok {
			return v, true
		}
		v, ok := service[name]
		return v, ok
	}
	for i := range in.Container.Env {
		env := &in.Container.Env[i]
		value := Expand(env.Value, lookup)
		if env.ValueFrom != nil {
			v, ok, err := envValue(ctx, &in, env.ValueFrom, source)
			if err != nil {
				return nil, nil, err
			}
			if !ok {
				continue // optional and absent
			}
			value = v
		}
		set(env.Name, value)
	}
	// Service variables never override what the pod says.
	names := make([]string, 0, len(service))
	for name := range service {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, has := values[name]; !has {
			set(name, service[name])
		}
	}
	out := make([]*runtimeapi.KeyValue, 0, len(order))
	for _, name := range order {
		out = append(out, &runtimeapi.KeyValue{Key: name, Value: []byte(values[name])})
	}
	return out, values, nil
}

func envFrom(ctx context.Context, in *EnvInput, from *corev1.EnvFromSource, source Source, set func(k, v string)) error {
	data := map[string]string{}
	var kind, name string
	switch {
	case from.ConfigMapRef != nil:
		kind, name = "ConfigMap", from.ConfigMapRef.Name
		cm, err := source.ConfigMap(ctx, in.Pod.Namespace, name)
		if err != nil {
			if optional(from.ConfigMapRef.Optional) && apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
		data = cm.Data
	case from.SecretRef != nil:
		kind, name = "Secret", from.SecretRef.Name
		s, err := source.Secret(ctx, in.Pod.Namespace, name)
		if err != nil {
			if optional(from.SecretRef.Optional) && apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
		for k, v := range s.Data {
			data[k] = string(v)
		}
	}
	keys := make([]string, 0, len(data))
	for k := range data {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var invalid []string
	for _, k := range keys {
		if len(validation.IsRelaxedEnvVarName(from.Prefix+k)) > 0 {
			invalid = append(invalid, k)
			continue
		}
		set(from.Prefix+k, data[k])
	}
	if len(invalid) > 0 && in.Skipped != nil {
		in.Skipped(kind, in.Pod.Namespace+"/"+name, invalid)
	}
	return nil
}

func envValue(ctx context.Context, in *EnvInput, from *corev1.EnvVarSource, source Source) (string, bool, error) {
	switch {
	case from.FieldRef != nil:
		v, err := Field(in.Pod, from.FieldRef.FieldPath, in.Addresses)
		return v, true, err
	case from.ResourceFieldRef != nil:
		v, err := ResourceField(in.Pod, in.Container, from.ResourceFieldRef, in.Allocatable)
		return v, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		cm, err := source.ConfigMap(ctx, in.Pod.Namespace, ref.Name)
		if err != nil {
			if optional(ref.Optional) && apierrors.IsNotFound(err) {
				return "", false, nil
			}
			return "", false, err
		}
		v, ok := cm.Data[ref.Key]
		if !ok && !optional(ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, in.Pod.Namespace, ref.Name)
		}
		return v, ok, nil
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		s, err := source.Secret(ctx, in.Pod.Namespace, ref.Name)
		if err != nil {
			if optional(ref.Optional) && apierrors.IsNotFound(err) {
				return "", false, nil
			}
			return "", false, err
		}
		v, ok := s.Data[ref.Key]
		if !ok && !optional(ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, in.Pod.Namespace, ref.Name)
		}
		return string(v), ok, nil
	case from.FileKeyRef != nil:
		return fileValue(in, from.FileKeyRef)
	}
	return "", false, fmt.Errorf("unsupported env source: the node agent of this release reads fields, resources, ConfigMaps, Secrets and files")
}

// fileValue reads a variable from a file that a container of the pod wrote.
func fileValue(in *EnvInput, ref *corev1.FileKeySelector) (string, bool, error) {
	if in.File == nil {
		return "", false, nil
	}
	data, err := in.File(ref.VolumeName, ref.Path)
	if errors.Is(err, fs.ErrNotExist) && optional(ref.Optional) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("couldn't read env file %q of volume %q: %w", ref.Path, ref.VolumeName, err)
	}
	value, err := envfile.Lookup(string(data), ref.Key)
	if err != nil {
		return "", false, fmt.Errorf("couldn't parse env file %q of volume %q: %w", ref.Path, ref.VolumeName, err)
	}
	if value == "" && !optional(ref.Optional) {
		return "", false, fmt.Errorf("environment variable key %q not found in file %q of volume %q", ref.Key, ref.Path, ref.VolumeName)
	}
	return value, value != "", nil
}

func optional(b *bool) bool { return b != nil && *b }

// serviceEnv makes the docker-link compatible variables of services with a cluster IP: those of the namespace when
// links is set, and the API's own service from namespace default always.
func serviceEnv(services []*corev1.Service, namespace string, links bool) []*runtimeapi.KeyValue {
	chosen := map[string]*corev1.Service{}
	for _, s := range services {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		switch {
		case s.Namespace == namespace && links:
			chosen[s.Name] = s
		case s.Namespace == metav1NamespaceDefault && s.Name == masterService:
			if chosen[s.Name] == nil {
				chosen[s.Name] = s
			}
		}
	}
	names := make([]string, 0, len(chosen))
	for name := range chosen {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []*runtimeapi.KeyValue
	add := func(k, v string) { out = append(out, &runtimeapi.KeyValue{Key: k, Value: []byte(v)}) }
	for _, name := range names {
		s := chosen[name]
		prefix := envName(s.Name)
		add(prefix+"_SERVICE_HOST", s.Spec.ClusterIP)
		add(prefix+"_SERVICE_PORT", strconv.Itoa(int(s.Spec.Ports[0].Port)))
		for _, p := range s.Spec.Ports {
			if p.Name != "" {
				add(prefix+"_SERVICE_PORT_"+envName(p.Name), strconv.Itoa(int(p.Port)))
			}
		}
		for i, p := range s.Spec.Ports {
			protocol := string(corev1.ProtocolTCP)
			if p.Protocol != "" {
				protocol = string(p.Protocol)
			}
			host := s.Spec.ClusterIP
			if strings.Contains(host, ":") {
				host = "[" + host + "]"
			}
			url := fmt.Sprintf("%s://%s:%d", strings.ToLower(protocol), host, p.Port)
			if i == 0 {
				add(prefix+"_PORT", url)
			}
			port := fmt.Sprintf("%s_PORT_%d_%s", prefix, p.Port, strings.ToUpper(protocol))
			add(port, url)
			add(port+"_PROTO", strings.ToLower(protocol))
			add(port+"_PORT", strconv.Itoa(int(p.Port)))
			add(port+"_ADDR", s.Spec.ClusterIP)
		}
	}
	return out
}

const metav1NamespaceDefault = "default"

func envName(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }
