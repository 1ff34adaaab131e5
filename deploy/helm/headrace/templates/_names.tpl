{{- define "headrace.labels" -}}
app.kubernetes.io/name: headrace
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "headrace.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}
