package resources

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"maps"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func secretKind() Kind {
	gvk := v1.SchemeGroupVersion.WithKind("Secret")
	doc := v1.Secret{}.SwaggerDoc()
	return Kind{
		GVK: gvk, Resource: "secrets", Singular: "secret",
		New:     func() runtime.Object { return &v1.Secret{} },
		NewList: func() runtime.Object { return &v1.SecretList{} },
		Strategy: &rules[*v1.Secret]{
			base:          base{gvk: gvk, namespaced: true},
			prepareCreate: mergeStringData,
			prepareUpdate: func(o, old *v1.Secret) {
				mergeStringData(o)
				if o.Type == "" {
					o.Type = old.Type
				}
			},
			validate:       validateSecret,
			validateUpdate: validateSecretUpdate,
			warnCreate:     warnSecret,
			warnUpdate:     func(o, _ *v1.Secret) []string { return warnSecret(o) },
		},
		FieldNames: []string{"type"},
		Fields: func(obj runtime.Object) fields.Set {
			return fields.Set{"type": string(obj.(*v1.Secret).Type)}
		},
		Columns: cols(nameColumn(), stringColumn("Type", doc["type"]), stringColumn("Data", doc["data"]), ageColumn()),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*v1.Secret)
			return []any{o.Name, string(o.Type), int64(len(o.Data)), ageCell(o.CreationTimestamp)}, nil
		},
	}
}

// setSecretDefaults also does what upstream's conversion does: stringData is
// write-only and ends in data as the object is read from the request.
func setSecretDefaults(o *v1.Secret) {
	if o.Type == "" {
		o.Type = v1.SecretTypeOpaque
	}
	mergeStringData(o)
}

func mergeStringData(o *v1.Secret) {
	if len(o.StringData) > 0 && o.Data == nil {
		o.Data = make(map[string][]byte, len(o.StringData))
	}
	for k, v := range o.StringData {
		o.Data[k] = []byte(v)
	}
	o.StringData = nil
}

func validateSecret(o *v1.Secret) field.ErrorList {
	errs := validateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	data := field.NewPath("data")
	size := 0
	for key, value := range o.Data {
		for _, msg := range validation.IsConfigMapKey(key) {
			errs = append(errs, field.Invalid(data.Key(key), key, msg))
		}
		size += len(value)
	}
	if size > v1.MaxSecretSize {
		errs = append(errs, field.TooLong(data, "", v1.MaxSecretSize))
	}
	return append(errs, validateSecretType(o, data)...)
}

// validateSecretType checks the keys that a well-known type must have.
func validateSecretType(o *v1.Secret, data *field.Path) field.ErrorList {
	var errs field.ErrorList
	require := func(keys ...string) {
		for _, key := range keys {
			if _, ok := o.Data[key]; !ok {
				errs = append(errs, field.Required(data.Key(key), ""))
			}
		}
	}
	requireJSON := func(key string) {
		require(key)
		if raw, ok := o.Data[key]; ok {
			if err := json.Unmarshal(raw, &map[string]any{}); err != nil {
				errs = append(errs, field.Invalid(data.Key(key), "<secret contents redacted>", err.Error()))
			}
		}
	}
	switch o.Type {
	case v1.SecretTypeServiceAccountToken:
		if o.Annotations[v1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(v1.ServiceAccountNameKey), ""))
		}
	case v1.SecretTypeDockercfg:
		requireJSON(v1.DockerConfigKey)
	case v1.SecretTypeDockerConfigJson:
		requireJSON(v1.DockerConfigJsonKey)
	case v1.SecretTypeBasicAuth:
		_, user := o.Data[v1.BasicAuthUsernameKey]
		_, password := o.Data[v1.BasicAuthPasswordKey]
		if !user && !password {
			require(v1.BasicAuthUsernameKey, v1.BasicAuthPasswordKey)
		}
	case v1.SecretTypeSSHAuth:
		if len(o.Data[v1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(data.Key(v1.SSHAuthPrivateKey), ""))
		}
	case v1.SecretTypeTLS:
		require(v1.TLSCertKey, v1.TLSPrivateKeyKey)
	}
	return errs
}

func validateSecretUpdate(o, old *v1.Secret) field.ErrorList {
	errs := validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, apivalidation.ValidateImmutableField(o.Type, old.Type, field.NewPath("type"))...)
	if isTrue(old.Immutable) {
		if !isTrue(o.Immutable) {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableMessage))
		}
		if !maps.EqualFunc(o.Data, old.Data, bytes.Equal) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), immutableMessage))
		}
	}
	return append(errs, validateSecret(o)...)
}

// warnSecret says where a TLS secret's key does not fit its certificate.
func warnSecret(o *v1.Secret) []string {
	if o.Type != v1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(o.Data[v1.TLSCertKey], o.Data[v1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}
