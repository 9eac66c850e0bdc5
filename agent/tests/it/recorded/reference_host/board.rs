//! Its board, as NVIDIA's programs list it.
use super::{CORNERS, Host, PARTITIONS};

impl Host {
    pub(super) fn board(&mut self) {
        let gpus = CORNERS.iter().map(|corner| {
            format!(
                "<gpu id=\"00000000:{}:00.0\"><serial>16529240{}</serial><uuid>GPU-{}</uuid>\
                 <vbios_version>96.00.A5.00.0{}</vbios_version><module_id>{}</module_id></gpu>",
                corner.gpu.to_uppercase(),
                corner.gpu,
                corner.gpu,
                corner.module % 10,
                corner.module
            )
        });
        let gpus: String = gpus.collect();
        self.text(
            "/var/lib/gpuaas/nvidia-smi.xml",
            format!("<?xml version=\"1.0\" ?>\n<nvidia_smi_log>{gpus}</nvidia_smi_log>"),
        );
        let partition = |(number, modules): (usize, &&[u32])| {
            let gpus: Vec<String> = modules
                .iter()
                .map(|module| {
                    format!(
                        r#"{{"physicalId":{module},"uuid":"","pciBusId":"","maxNumNvLinks":18}}"#
                    )
                })
                .collect();
            let count = modules.len();
            let gpus = gpus.join(",");
            format!(
                r#"{{"partitionId":{number},"isActive":0,"numGpus":{count},"gpuInfo":[{gpus}]}}"#
            )
        };
        let table: Vec<String> = PARTITIONS.iter().enumerate().map(partition).collect();
        self.text(
            "/var/lib/gpuaas/fabric-partitions.json",
            format!(
                r#"{{"version":1,"numPartitions":15,"partitionInfo":[{}]}}"#,
                table.join(",")
            ),
        );
    }
}
