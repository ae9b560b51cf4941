package resources

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Fields of a pod that environment variables and downward API volumes read.
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	otherFields        = []string{"spec.restartPolicy", "spec.schedulerName", "status.phase"} // known, read by neither
	volumeFields       = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
	containerResources = []string{
		"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory",
	}
)

func validateEnv(vars []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range vars {
		e, p := &vars[i], path.Index(i)
		if e.Name == "" {
			errs = append(errs, field.Required(p.Child("name"), ""))
		} else {
			errs = append(errs, invalidAll(p.Child("name"), e.Name, validation.IsRelaxedEnvVarName(e.Name))...)
		}
		if e.ValueFrom != nil {
			errs = append(errs, validateEnvSource(e, p.Child("valueFrom"))...)
		}
	}
	return errs
}

func validateEnvSource(e *corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	n, f := 0, e.ValueFrom
	if r := f.FieldRef; r != nil {
		n++
		errs = append(errs, validateFieldRef(r, envFields, path.Child("fieldRef"))...)
	}
	if r := f.ResourceFieldRef; r != nil {
		n++
		errs = append(errs, validateResourceFieldRef(r, path.Child("resourceFieldRef"), false)...)
	}
	if r := f.ConfigMapKeyRef; r != nil {
		n++
		errs = append(errs, validateKeyRef(r.Name, r.Key, path.Child("configMapKeyRef"))...)
	}
	if r := f.SecretKeyRef; r != nil {
		n++
		errs = append(errs, validateKeyRef(r.Name, r.Key, path.Child("secretKeyRef"))...)
	}
	if r := f.FileKeyRef; r != nil {
		n++
		p := path.Child("fileKeyRef")
		if errs = append(errs, required(p.Child("key"), r.Key)...); r.Key != "" {
			errs = append(errs, invalidAll(p.Child("key"), r.Key, validation.IsRelaxedEnvVarName(r.Key))...)
		}
		if errs = append(errs, required(p.Child("volumeName"), r.VolumeName)...); r.VolumeName != "" {
			errs = append(errs, invalidAll(p.Child("volumeName"), r.VolumeName, validation.IsDNS1123Label(r.VolumeName))...)
		}
		if errs = append(errs, required(p.Child("path"), r.Path)...); r.Path != "" {
			errs = append(errs, validateNoBacksteps(r.Path, p.Child("path"))...)
		}
	}
	switch {
	case n == 0:
		errs = append(errs, field.Invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case e.Value != "":
		errs = append(errs, field.Invalid(path, "", "may not be specified when `value` is not empty"))
	case n > 1:
		errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
	}
	return errs
}

func validateKeyRef(name, key string, path *field.Path) field.ErrorList {
	errs := invalidAll(path.Child("name"), name, apivalidation.NameIsDNSSubdomain(name, false))
	if key == "" {
		return append(errs, field.Required(path.Child("key"), ""))
	}
	return append(errs, invalidAll(path.Child("key"), key, validation.IsConfigMapKey(key))...)
}

func validateFieldRef(r *corev1.ObjectFieldSelector, known []string, path *field.Path) field.ErrorList {
	switch {
	case r.APIVersion == "":
		return field.ErrorList{field.Required(path.Child("apiVersion"), "")}
	case r.FieldPath == "":
		return field.ErrorList{field.Required(path.Child("fieldPath"), "")}
	case r.APIVersion != "v1":
		return field.ErrorList{field.Invalid(path.Child("fieldPath"), r.FieldPath, fmt.Sprintf("error converting fieldPath: unsupported pod version: %s", r.APIVersion))}
	}
	name := r.FieldPath
	if name == "spec.host" {
		// spec.nodeName had this name before v1.
		name = "spec.nodeName"
	}
	if base, key, ok := strings.Cut(name, "['"); ok && strings.HasSuffix(key, "']") {
		key = strings.TrimSuffix(key, "']")
		switch base {
		case "metadata.annotations":
			return invalidAll(path, strings.ToLower(key), validation.IsQualifiedName(strings.ToLower(key)))
		case "metadata.labels":
			return invalidAll(path, key, validation.IsQualifiedName(key))
		}
		return field.ErrorList{field.Invalid(path.Child("fieldPath"), name, "error converting fieldPath: field label does not support subscript: "+name)}
	}
	switch {
	case slices.Contains(known, name):
		return nil
	case slices.Contains(envFields, name), slices.Contains(volumeFields, name), slices.Contains(otherFields, name):
		return field.ErrorList{field.NotSupported(path.Child("fieldPath"), name, known)}
	}
	return field.ErrorList{field.Invalid(path.Child("fieldPath"), r.FieldPath, "error converting fieldPath: field label not supported: "+name)}
}

func validateResourceFieldRef(r *corev1.ResourceFieldSelector, path *field.Path, volume bool) field.ErrorList {
	var errs field.ErrorList
	switch {
	case volume && r.ContainerName == "":
		errs = append(errs, field.Required(path.Child("containerName"), ""))
	case r.Resource == "":
		errs = append(errs, field.Required(path.Child("resource"), ""))
	case slices.Contains(containerResources, r.Resource), strings.HasPrefix(r.Resource, "limits.hugepages-"), strings.HasPrefix(r.Resource, "requests.hugepages-"):
	default:
		errs = append(errs, field.NotSupported(path.Child("resource"), r.Resource, containerResources))
	}
	if r.Divisor.IsZero() {
		return errs
	}
	units := []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
	of := "memory"
	switch {
	case strings.HasSuffix(r.Resource, ".cpu"):
		of, units = "cpu", []string{"1m", "1"}
	case strings.HasSuffix(r.Resource, ".ephemeral-storage"):
		of = "local ephemeral storage"
	case strings.Contains(r.Resource, ".hugepages-"):
		of = "hugepages"
	}
	if !slices.Contains(units, r.Divisor.String()) {
		if of == "cpu" {
			errs = append(errs, field.Invalid(path.Child("divisor"), r.Resource, "only divisor's values 1m and 1 are supported with the cpu resource"))
		} else {
			errs = append(errs, field.Invalid(path.Child("divisor"), r.Resource, fmt.Sprintf("only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the %s resource", of)))
		}
	}
	return errs
}

func validateEnvFrom(list []corev1.EnvFromSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		e, p := &list[i], path.Index(i)
		if e.Prefix != "" {
			errs = append(errs, invalidAll(p.Child("prefix"), e.Prefix, validation.IsRelaxedEnvVarName(e.Prefix))...)
		}
		n := 0
		ref := func(name string, at *field.Path) {
			n++
			if name == "" {
				errs = append(errs, field.Required(at.Child("name"), ""))
			} else {
				errs = append(errs, invalidAll(at.Child("name"), name, apivalidation.NameIsDNSSubdomain(name, true))...)
			}
		}
		if e.ConfigMapRef != nil {
			ref(e.ConfigMapRef.Name, p.Child("configMapRef"))
		}
		if e.SecretRef != nil {
			ref(e.SecretRef.Name, p.Child("secretRef"))
		}
		switch {
		case n == 0:
			errs = append(errs, field.Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
		case n > 1:
			errs = append(errs, field.Invalid(path, "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}

// validateFileKeyVolumes: a file that a variable is read from lies in an
// emptyDir of the pod.
func validateFileKeyVolumes(s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	eachContainer(s, path, func(c *corev1.Container, p *field.Path) {
		for i, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.FileKeyRef == nil {
				continue
			}
			name, at := e.ValueFrom.FileKeyRef.VolumeName, p.Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
			j := slices.IndexFunc(s.Volumes, func(v corev1.Volume) bool { return v.Name == name })
			switch {
			case j < 0:
				errs = append(errs, field.NotFound(at, name))
			case s.Volumes[j].EmptyDir == nil:
				errs = append(errs, field.Invalid(at, name, "referenced volume must be of type emptyDir"))
			}
		}
	})
	return errs
}
