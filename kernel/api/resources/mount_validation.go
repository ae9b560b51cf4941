package resources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func (v *specValidator) validateMounts(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	mounts := at.Child("volumeMounts")
	for i := range c.VolumeMounts {
		m, p := &c.VolumeMounts[i], mounts.Index(i)
		errs = append(errs, required(p.Child("name"), m.Name)...)
		if v.volumes[m.Name] == nil {
			errs = append(errs, field.NotFound(p.Child("name"), m.Name))
		}
		errs = append(errs, required(p.Child("mountPath"), m.MountPath)...)
		if slices.ContainsFunc(c.VolumeMounts[:i], func(o corev1.VolumeMount) bool { return o.MountPath == m.MountPath }) {
			errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must be unique"))
		}
		for _, d := range c.VolumeDevices {
			if d.Name == m.Name {
				errs = append(errs, field.Invalid(p.Child("name"), m.Name, "must not already exist in volumeDevices"))
			}
			if d.DevicePath == m.MountPath {
				errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices"))
			}
		}
		if m.SubPath != "" {
			errs = append(errs, validateDescending(m.SubPath, mounts.Child("subPath"))...)
		}
		if m.SubPathExpr != "" {
			if m.SubPath != "" {
				errs = append(errs, field.Invalid(p.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
			}
			errs = append(errs, validateDescending(m.SubPathExpr, mounts.Child("subPathExpr"))...)
		}
		if g := m.MountPropagation; g != nil {
			errs = append(errs, supported(mounts.Child("mountPropagation"), *g, corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone)...)
			if *g == corev1.MountPropagationBidirectional && !privileged(c) {
				errs = append(errs, field.Forbidden(mounts.Child("mountPropagation"), "Bidirectional mount propagation is available only to privileged containers"))
			}
		}
		if r := m.RecursiveReadOnly; r != nil {
			q := mounts.Child("recursiveReadOnly")
			errs = append(errs, supported(q, *r, corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible)...)
			if *r != corev1.RecursiveReadOnlyDisabled && !m.ReadOnly {
				errs = append(errs, field.Forbidden(q, "may only be specified when readOnly is true"))
			}
			if g := ptr.Deref(m.MountPropagation, corev1.MountPropagationNone); *r != corev1.RecursiveReadOnlyDisabled && g != corev1.MountPropagationNone {
				errs = append(errs, field.Forbidden(q, "may only be specified when mountPropagation is None or not specified"))
			}
		}
	}
	for i, d := range c.VolumeDevices {
		p := at.Child("volumeDevices").Index(i)
		errs = append(errs, need("name", d.Name, "devicePath", d.DevicePath)(p)...)
		switch src := v.volumes[d.Name]; {
		case src == nil:
			errs = append(errs, field.NotFound(p.Child("name"), d.Name))
		case src.PersistentVolumeClaim == nil && src.Ephemeral == nil:
			errs = append(errs, field.Invalid(p.Child("name"), d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		for _, o := range c.VolumeDevices[:i] {
			if o.Name == d.Name {
				errs = append(errs, field.Invalid(p.Child("name"), d.Name, "must be unique"))
			}
			if o.DevicePath == d.DevicePath {
				errs = append(errs, field.Invalid(p.Child("devicePath"), d.DevicePath, "must be unique"))
			}
		}
		for _, m := range c.VolumeMounts {
			if m.Name == d.Name {
				errs = append(errs, field.Invalid(p.Child("name"), d.Name, "must not already exist in volumeMounts"))
			}
			if m.MountPath == d.DevicePath {
				errs = append(errs, field.Invalid(p.Child("devicePath"), d.DevicePath, "must not already exist as a path in volumeMounts"))
			}
		}
		if slices.Contains(strings.Split(d.DevicePath, "/"), "..") {
			errs = append(errs, field.Invalid(p.Child("devicePath"), d.DevicePath, "can not contain backsteps ('..')"))
		}
	}
	return errs
}
