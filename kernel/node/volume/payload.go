package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"pintle.dev/pintle/kernel/node/container"
)

const defaultMode = 0o644

func mode(items *int32, volume *int32) fs.FileMode {
	switch {
	case items != nil:
		return fs.FileMode(*items) & fs.ModePerm
	case volume != nil:
		return fs.FileMode(*volume) & fs.ModePerm
	}
	return defaultMode
}

func isSet(b *bool) bool { return b != nil && *b }

// payload computes the files of an object-backed volume.
func (m *Manager) payload(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (map[string]File, error) {
	src := m.deps.Source(pod.UID)
	switch {
	case v.ConfigMap != nil:
		return configMapFiles(ctx, src, pod.Namespace, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.DefaultMode, isSet(v.ConfigMap.Optional))
	case v.Secret != nil:
		return secretFiles(ctx, src, pod.Namespace, v.Secret.SecretName, v.Secret.Items, v.Secret.DefaultMode, isSet(v.Secret.Optional))
	case v.DownwardAPI != nil:
		return m.downwardFiles(pod, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		return m.projectedFiles(ctx, src, pod, v)
	}
	return nil, fmt.Errorf("volume %q is not made from objects", v.Name)
}

func configMapFiles(ctx context.Context, src container.Source, ns, name string, items []corev1.KeyToPath, dm *int32, optional bool) (map[string]File, error) {
	cm, err := src.ConfigMap(ctx, ns, name)
	if err != nil {
		if !optional || !apierrors.IsNotFound(err) {
			return nil, err
		}
		cm = &corev1.ConfigMap{}
	}
	data := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for k, v := range cm.Data {
		data[k] = []byte(v)
	}
	maps.Copy(data, cm.BinaryData)
	return keyFiles(data, items, dm, optional, "configmap references non-existent config key: %s")
}

func secretFiles(ctx context.Context, src container.Source, ns, name string, items []corev1.KeyToPath, dm *int32, optional bool) (map[string]File, error) {
	s, err := src.Secret(ctx, ns, name)
	if err != nil {
		if !optional || !apierrors.IsNotFound(err) {
			return nil, err
		}
		s = &corev1.Secret{}
	}
	return keyFiles(s.Data, items, dm, optional, "references non-existent secret key: %s")
}

func keyFiles(data map[string][]byte, items []corev1.KeyToPath, dm *int32, optional bool, missing string) (map[string]File, error) {
	files := map[string]File{}
	if len(items) == 0 {
		for k, v := range data {
			files[k] = File{Data: v, Mode: mode(nil, dm)}
		}
		return files, nil
	}
	for _, item := range items {
		v, ok := data[item.Key]
		if !ok {
			if optional {
				continue
			}
			return nil, fmt.Errorf(missing, item.Key)
		}
		files[path.Clean(item.Path)] = File{Data: v, Mode: mode(item.Mode, dm)}
	}
	return files, nil
}

func (m *Manager) downwardFiles(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, dm *int32) (map[string]File, error) {
	files := map[string]File{}
	var errs []error
	for i := range items {
		item := &items[i]
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = container.Field(pod, item.FieldRef.FieldPath, m.deps.Addresses(pod))
		case item.ResourceFieldRef != nil:
			c := container.Find(pod, item.ResourceFieldRef.ContainerName)
			if c == nil {
				err = fmt.Errorf("container %s not found", item.ResourceFieldRef.ContainerName)
				break
			}
			value, err = container.ResourceField(pod, c, item.ResourceFieldRef, m.deps.Allocatable())
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		files[path.Clean(item.Path)] = File{Data: []byte(value), Mode: mode(item.Mode, dm)}
	}
	return files, errors.Join(errs...)
}

func (m *Manager) projectedFiles(ctx context.Context, src container.Source, pod *corev1.Pod, v *corev1.Volume) (map[string]File, error) {
	files := map[string]File{}
	dm := v.Projected.DefaultMode
	var errs []error
	for i := range v.Projected.Sources {
		s := &v.Projected.Sources[i]
		var part map[string]File
		var err error
		switch {
		case s.Secret != nil:
			part, err = secretFiles(ctx, src, pod.Namespace, s.Secret.Name, s.Secret.Items, dm, isSet(s.Secret.Optional))
		case s.ConfigMap != nil:
			part, err = configMapFiles(ctx, src, pod.Namespace, s.ConfigMap.Name, s.ConfigMap.Items, dm, isSet(s.ConfigMap.Optional))
		case s.DownwardAPI != nil:
			part, err = m.downwardFiles(pod, s.DownwardAPI.Items, dm)
		case s.ServiceAccountToken != nil:
			var token string
			token, err = m.tokens.get(ctx, pod, s.ServiceAccountToken)
			if err != nil {
				break
			}
			f := File{Data: []byte(token), Mode: mode(nil, dm)}
			// A token is readable by the pod's user only: group by fsGroup, or owner when all containers run as one user.
			if fsGroup(pod) != nil {
				f.Mode = 0o600
			} else if uid := singleUser(pod); uid != nil {
				f.Mode, f.UID = 0o600, uid
			}
			part = map[string]File{path.Clean(s.ServiceAccountToken.Path): f}
		default:
			err = fmt.Errorf("projected volume %q: source %d is of a kind that this release of the node agent does not project", v.Name, i)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		maps.Copy(files, part)
	}
	return files, errors.Join(errs...)
}

func fsGroup(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// singleUser is the user that all containers run as, when the spec says so.
func singleUser(pod *corev1.Pod) *int64 {
	var user *int64
	for c := range container.All(pod) {
		var u *int64
		if pod.Spec.SecurityContext != nil {
			u = pod.Spec.SecurityContext.RunAsUser
		}
		if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
			u = c.SecurityContext.RunAsUser
		}
		if u == nil || (user != nil && *user != *u) {
			return nil
		}
		user = u
	}
	return user
}
