{{- define "tidegate.pod" -}}
automountServiceAccountToken: false
securityContext: {runAsNonRoot: true, runAsUser: 10001, fsGroup: 10001}
volumes:
  - {name: work, emptyDir: {}}
  - {name: project, configMap: {name: {{ .Release.Name }}-project}}
{{- end }}
{{- define "tidegate.container" -}}
name: tidegate
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
envFrom: [{secretRef: {name: {{ .Values.secretName }}}}]
resources: {{ toJson .Values.resources }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: ["ALL"]}
  seccompProfile: {type: RuntimeDefault}
volumeMounts:
  - {name: work, mountPath: /work}
  - {name: project, mountPath: /work/tidegate.yaml, subPath: tidegate.yaml, readOnly: true}
{{- end }}
